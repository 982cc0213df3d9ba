#ifndef SLUICE_MODELS_DEVICE_CUDA_RUNTIME_DEVICE_H_
#define SLUICE_MODELS_DEVICE_CUDA_RUNTIME_DEVICE_H_

#include <memory>
#include <string>

#include "models/device/cuda_device_options.h"
#include "models/device/device.h"

namespace sluice {

// A device over CUDA's runtime. Only for OpenCudaDevice, which has checked that the device works.
std::unique_ptr<Device> MakeCudaDevice(int ordinal, std::string name,
                                       const CudaDeviceOptions& options);

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_CUDA_RUNTIME_DEVICE_H_
