#include "partitioner/planning/profiling/cpu_device.h"

namespace sluice {

// For programs without kernels (models/kernels/no_kernels.cc).
absl::StatusOr<DeviceSpec> MeasureCpu(const ModelSpec&, const BatchShape&, DType, int) {
  return absl::UnimplementedError(
      "the processor is measured with kernels, which this package is built without; name another "
      "--device, such as h200 or a FILE.json, or plan for a profile.json that 'sluice profile' has "
      "measured");
}

}  // namespace sluice
