#ifndef SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_REHEARSE_H_
#define SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_REHEARSE_H_

#include <cuda_runtime_api.h>

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "models/device/cuda_error.h"

namespace sluice::cuda {

// Lets `run` queue kernels on separate memory full of zeros, and waits for them, so that they are
// loaded: loading one waits for everything that the GPU runs, also for a message that is awaited
// there. Where no memory is left for it the device has failed, since a run could then wait for
// itself.
inline void Rehearse(cudaStream_t queue, size_t bytes, absl::FunctionRef<void(std::byte*)> run) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  (void)cudaGetLastError();
  if (error != cudaSuccess) {
    return NoteCudaFailure(CudaStatus(error, absl::StrCat("loading kernels takes ", bytes,
                                                          " bytes beside the arena for a moment")));
  }
  (void)cudaMemsetAsync(memory, 0, bytes, queue);
  run(static_cast<std::byte*>(memory));
  (void)cudaStreamSynchronize(queue);
  (void)cudaFree(memory);
  NoteLastCudaError("loading kernels");
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_REHEARSE_H_
