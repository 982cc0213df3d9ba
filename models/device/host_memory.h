#ifndef SLUICE_MODELS_DEVICE_HOST_MEMORY_H_
#define SLUICE_MODELS_DEVICE_HOST_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/device/device.h"
#include "models/device/host_limits.h"

namespace sluice {

// ResourceExhausted when the machine, or a limit of this process (host_limits.h), leaves fewer than
// `bytes`. Checked before any arena of a run
// is allocated, since Linux counts memory as used only once it is written.
absl::Status CheckHostMemory(int64_t bytes, const HostMemory& memory = ReadHostMemory());

// Zeroed pages of the machine's memory. ResourceExhausted like CheckHostMemory, since Linux would
// otherwise give out pages that it cannot back.
absl::StatusOr<DeviceMemory> AllocateHostMemory(int64_t bytes);

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_HOST_MEMORY_H_
