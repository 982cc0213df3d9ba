#ifndef SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_SEPARATE_MEMORY_H_
#define SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_SEPARATE_MEMORY_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "models/device/cuda_error.h"

namespace sluice::cuda {

struct FreeSeparateMemory {
  void operator()(std::byte* memory) const { (void)cudaFree(memory); }
};
// Memory of the current device beside the arena, for a moment.
using SeparateMemory = std::unique_ptr<std::byte, FreeSeparateMemory>;

// ResourceExhausted where there is too little: "`what` takes 33554432 bytes beside the arena ...".
inline absl::StatusOr<SeparateMemory> AllocateSeparately(size_t bytes, absl::string_view what) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  (void)cudaGetLastError();
  if (error != cudaSuccess) {
    return CudaStatus(error,
                      absl::StrCat(what, " takes ", bytes, " bytes beside the arena for a moment"));
  }
  return SeparateMemory(static_cast<std::byte*>(memory));
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_SEPARATE_MEMORY_H_
