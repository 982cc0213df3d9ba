#ifndef SLUICE_MODELS_DEVICE_CUDA_DEVICE_H_
#define SLUICE_MODELS_DEVICE_CUDA_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "models/device/cuda_device_options.h"
#include "models/device/device.h"

namespace sluice {

// The number of devices that CUDA shows this process (CUDA_VISIBLE_DEVICES); 0 without a driver,
// and in a build without CUDA.
int CudaDeviceCount();

// A thread's kernels run on the device of the last stream that the thread made; no other call
// changes that. Stream.handle is a cudaStream_t that does not wait for the default stream,
// Event.handle a cudaEvent_t. FailedPrecondition where there is no such device, it is too old
// (compute capability below 8.0), the driver is too old, or the build has no CUDA.
absl::StatusOr<std::unique_ptr<Device>> OpenCudaDevice(int ordinal,
                                                       const CudaDeviceOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_CUDA_DEVICE_H_
