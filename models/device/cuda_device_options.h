#ifndef SLUICE_MODELS_DEVICE_CUDA_DEVICE_OPTIONS_H_
#define SLUICE_MODELS_DEVICE_CUDA_DEVICE_OPTIONS_H_

#include "models/device/device_allocator.h"

namespace sluice {

struct CudaDeviceOptions {
  DeviceAllocator allocator = {};
  bool graphs = false;  // Repeat replays CUDA graphs
};

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_CUDA_DEVICE_OPTIONS_H_
