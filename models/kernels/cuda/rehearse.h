#ifndef SLUICE_MODELS_KERNELS_CUDA_REHEARSE_H_
#define SLUICE_MODELS_KERNELS_CUDA_REHEARSE_H_

#include <cuda_runtime_api.h>

#include <cstddef>

#include "absl/functional/function_ref.h"

namespace sluice::cuda {

// Lets `run` queue kernels on separate memory full of zeros, and waits for them, so that they are
// loaded. Does nothing if no memory is left for it.
inline void Rehearse(cudaStream_t queue, size_t bytes, absl::FunctionRef<void(std::byte*)> run) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) == cudaSuccess) {
    (void)cudaMemsetAsync(memory, 0, bytes, queue);
    run(static_cast<std::byte*>(memory));
    (void)cudaStreamSynchronize(queue);
    (void)cudaFree(memory);
  }
  (void)cudaGetLastError();
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_REHEARSE_H_
