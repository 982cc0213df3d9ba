// Stands where CUDA's own header would (see cuda_bf16.h): a launch runs the kernel when its stream
// gets there.
#ifndef SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_H_
#define SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_H_

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "tests/models/kernels/cuda_emulation/block.h"
#include "tests/models/kernels/cuda_emulation/on_stream.h"

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned size_x = 1, unsigned size_y = 1, unsigned size_z = 1)  // NOLINT
      : x(size_x), y(size_y), z(size_z) {}
};

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
};

namespace sluice::emulation {

// The dynamic shared memory that kernels may have on each device: 48 KiB, or what was allowed.
class SharedMemoryLimits {
 public:
  void Allow(const void* kernel, size_t bytes) {
    const std::lock_guard lock(mutex_);
    limits_[{Device(), kernel}] = bytes;
  }
  void Check(const void* kernel, size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = limits_.find({Device(), kernel});
    if (bytes <= (found == limits_.end() ? size_t{48} * 1024 : found->second)) return;
    std::fprintf(stderr, "emulated kernel: %zu bytes of shared memory are not allowed\n", bytes);
    std::abort();
  }

 private:
  static int Device() {
    int device = 0;
    cudaGetDevice(&device);
    return device;
  }

  std::mutex mutex_;
  std::map<std::pair<int, const void*>, size_t> limits_;
};
inline SharedMemoryLimits shared_memory_limits;

}  // namespace sluice::emulation

template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute, int bytes) {
  sluice::emulation::shared_memory_limits.Allow(reinterpret_cast<const void*>(kernel),
                                                static_cast<size_t>(bytes));
  return cudaSuccess;
}

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments... arguments) {
  sluice::emulation::shared_memory_limits.Check(reinterpret_cast<const void*>(kernel),
                                                config->dynamicSmemBytes);
  const sluice::emulation::Grid grid = {.x = config->gridDim.x,
                                        .y = config->gridDim.y,
                                        .threads = static_cast<int>(config->blockDim.x),
                                        .shared_bytes = config->dynamicSmemBytes};
  sluice::emulation::OnStream(config->stream, [grid, kernel, arguments...] {
    sluice::emulation::RunGrid(grid, sluice::emulation::launch_seed, [&] { kernel(arguments...); });
  });
  return cudaSuccess;
}

#endif  // SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_H_
