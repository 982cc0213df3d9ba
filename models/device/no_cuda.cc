#include "models/device/cuda_device.h"

namespace sluice {

int CudaDeviceCount() { return 0; }

absl::StatusOr<std::unique_ptr<Device>> OpenCudaDevice(int, const CudaDeviceOptions&) {
  return absl::FailedPreconditionError(
      "this build has no CUDA; where there is nvcc, configure with -DSLUICE_CUDA=ON");
}

}  // namespace sluice
