// Stands where CUDA's own header would (see cuda_bf16.h): a launch runs the kernel when its stream
// gets there.
#ifndef SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_H_
#define SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_H_

#include <cuda_runtime_api.h>

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

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments... arguments) {
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
