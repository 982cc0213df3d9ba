#include "tools/plan/device_file.h"

#include "absl/strings/match.h"
#include "models/files/positioned_file.h"
#include "tools/files.h"

namespace sluice {

absl::StatusOr<DeviceSpec> ReadDevice(
    const std::string& name,
    absl::FunctionRef<absl::StatusOr<DeviceSpec>(absl::string_view)> known) {
  if (!absl::EndsWith(name, ".json")) return known(name);
  const absl::StatusOr<std::string> text = ReadWholeFile(name, kMostJsonBytes);
  if (!text.ok()) return text.status();
  return ParseDevice(*text, name);
}

}  // namespace sluice
