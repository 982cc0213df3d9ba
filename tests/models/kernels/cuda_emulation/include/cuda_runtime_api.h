// Stands where CUDA's own header would (see cuda_bf16.h): what launches of kernels use.
#ifndef SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_API_H_
#define SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_API_H_

#include <cstddef>

using cudaStream_t = struct CUstream_st*;
enum cudaError_t : int { cudaSuccess };
enum cudaMemcpyKind : int { cudaMemcpyDefault = 4 };
enum cudaDeviceAttr : int { cudaDevAttrMaxSharedMemoryPerBlockOptin = 97 };
enum cudaFuncAttribute : int { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

// Whoever emulates the runtime defines them.
extern "C" cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                                       cudaStream_t stream);
extern "C" cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream);
extern "C" cudaError_t cudaGetDevice(int* device);
extern "C" cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int device);

#endif  // SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_API_H_
