#ifndef SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_REHEARSE_H_
#define SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_REHEARSE_H_

#include <cuda_runtime_api.h>

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "models/device/cuda_error.h"
#include "models/kernels/cuda/products/separate_memory.h"

namespace sluice::cuda {

// Lets `run` queue kernels on separate memory, a workspace and tensors full of zeros, and waits for
// them, so that they are loaded: loading one waits for everything that the GPU runs, also for a
// message that is awaited there. Where no memory is left for it the device has failed, since a run
// could then wait for itself.
inline void Rehearse(cudaStream_t queue, size_t workspace_bytes, size_t tensor_bytes,
                     absl::FunctionRef<void(std::byte* workspace, std::byte* tensors)> run) {
  absl::StatusOr<SeparateMemory> memory =
      AllocateSeparately(workspace_bytes + tensor_bytes, "loading kernels");
  if (!memory.ok()) return NoteCudaFailure(memory.status());
  std::byte* const tensors = memory->get() + workspace_bytes;
  (void)cudaMemsetAsync(tensors, 0, tensor_bytes, queue);
  run(memory->get(), tensors);
  (void)cudaStreamSynchronize(queue);
  memory->reset();
  NoteLastCudaError("loading kernels");
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_REHEARSE_H_
