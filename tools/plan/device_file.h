#ifndef SLUICE_TOOLS_PLAN_DEVICE_FILE_H_
#define SLUICE_TOOLS_PLAN_DEVICE_FILE_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "partitioner/costs/device.h"

namespace sluice {

// The device that a FILE.json describes; any other name is one that `known` knows (BuiltInDevice,
// DataSheetDevice). Errors are ReadWholeFile's, ParseDevice's and `known`'s.
absl::StatusOr<DeviceSpec> ReadDevice(
    const std::string& name,
    absl::FunctionRef<absl::StatusOr<DeviceSpec>(absl::string_view)> known);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_DEVICE_FILE_H_
