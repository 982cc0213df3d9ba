// Stands where CUDA's own header would (see cuda_bf16.h): a stream's work is done at once.
#ifndef SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_API_H_
#define SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_API_H_

#include <cstddef>
#include <cstring>

using cudaStream_t = struct CUstream_st*;
enum cudaError_t : int { cudaSuccess };
enum cudaMemcpyKind : int { cudaMemcpyDefault };

inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                                   cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}

#endif  // SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_API_H_
