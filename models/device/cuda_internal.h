#ifndef SLUICE_MODELS_DEVICE_CUDA_INTERNAL_H_
#define SLUICE_MODELS_DEVICE_CUDA_INTERNAL_H_

#include <memory>
#include <string>

#include "models/device/cuda_device.h"

namespace sluice {

// For OpenCudaDevice alone, once the device is known to work.
std::unique_ptr<Device> MakeCudaDevice(int ordinal, std::string name,
                                       const CudaDeviceOptions& options);

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_CUDA_INTERNAL_H_
