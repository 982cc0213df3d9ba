#ifndef SLUICE_MODELS_KERNELS_CUDA_ELEMENTWISE_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ELEMENTWISE_CUH_

#include "models/kernels/cuda/vector.cuh"

namespace sluice::cuda {

constexpr int kFlatThreads = 256;

// Where in a flat tensor a thread's part begins.
template <int kN>
__device__ inline int64_t FlatStart() {
  return (static_cast<int64_t>(blockIdx.x) * kFlatThreads + threadIdx.x) * kN;
}

// y += x.
template <bool kAligned>
__global__ void __launch_bounds__(kFlatThreads) AddKernel(int64_t n, const float* x, float* y) {
  ForOnePart<kAligned, kFloatPart>(FlatStart<kFloatPart>(), n, [&](auto whole, int64_t i) {
    float values[kFloatPart], sums[kFloatPart];
    LoadPart<whole.value>(x, i, n, 0.0f, values);
    LoadPart<whole.value>(y, i, n, 0.0f, sums);
#pragma unroll
    for (int j = 0; j < kFloatPart; ++j) sums[j] += values[j];
    StorePart<whole.value>(sums, i, n, y);
  });
}

template <bool kAligned>
__global__ void __launch_bounds__(kFlatThreads)
    ToBFloat16Kernel(int64_t n, const float* from, BFloat16* to) {
  ForOnePart<kAligned, kPart>(FlatStart<kPart>(), n, [&](auto whole, int64_t i) {
    float values[kPart];
    LoadPart<whole.value>(from, i, n, 0.0f, values);
    StorePart<whole.value>(values, i, n, to);
  });
}

constexpr int kSquaresWarps = 8;

// A warp takes a block of kSquaresBlock values.
template <bool kAligned>
__global__ void __launch_bounds__(kSquaresWarps* kWarp)
    BlockSquaresKernel(int64_t n, int64_t block_size, const float* x, double* sums) {
  const int64_t block = static_cast<int64_t>(blockIdx.x) * kSquaresWarps + threadIdx.x / kWarp;
  const int64_t first = block * block_size;
  if (first >= n) return;
  const int64_t length = first + block_size <= n ? block_size : n - first;
  double sum = 0;
  const auto add = [&](auto whole, int64_t i) {
    float values[kFloatPart];
    LoadPart<whole.value>(x + first, i, length, 0.0f, values);
#pragma unroll
    for (int j = 0; j < kFloatPart; ++j) {
      const double value = static_cast<double>(values[j]);
      sum = fma(value, value, sum);
    }
  };
  ForParts<kAligned, kFloatPart>(threadIdx.x % kWarp * kFloatPart, kWarp * kFloatPart, length, add);
  sum = WarpSum(sum);
  if (threadIdx.x % kWarp == 0) sums[block] = sum;
}

constexpr int kOrderThreads = 1024;

// One block. Its threads fetch a tile ahead of the one thread that adds: the order is the contract.
__global__ void __launch_bounds__(kOrderThreads)
    AddInOrderKernel(int64_t n, const double* values, double* total, bool accumulate) {
  __shared__ double tiles[2][kOrderThreads];
  const int thread = threadIdx.x;
  double sum = thread == 0 && accumulate ? *total : 0.0;
  if (thread < n) tiles[0][thread] = values[thread];
  int now = 0;
  for (int64_t first = 0; first < n; first += kOrderThreads, now ^= 1) {
    __syncthreads();
    const int64_t next = first + kOrderThreads + thread;
    if (next < n) tiles[now ^ 1][thread] = values[next];
    if (thread != 0) continue;
    const int count = n - first < kOrderThreads ? static_cast<int>(n - first) : kOrderThreads;
#pragma unroll 16
    for (int i = 0; i < count; ++i) sum += tiles[now][i];
  }
  if (thread == 0) *total = sum;
}

__global__ void SetKernel(bool* flag) {
  if (threadIdx.x == 0) *flag = true;
}

__device__ inline bool IsFinite(float x) {
  return (__float_as_uint(x) & 0x7F800000u) != 0x7F800000u;
}

// Clears the flag where a value is not finite; all who write it write the same.
template <bool kAligned, class T>
__global__ void __launch_bounds__(kFlatThreads) AllFiniteKernel(int64_t n, const T* x, bool* flag) {
  bool finite = true;
  ForOnePart<kAligned, kPart>(FlatStart<kPart>(), n, [&](auto whole, int64_t i) {
    float values[kPart];
    LoadPart<whole.value>(x, i, n, 0.0f, values);
#pragma unroll
    for (int j = 0; j < kPart; ++j) finite = finite && IsFinite(values[j]);
  });
  if (!finite) *flag = false;
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_ELEMENTWISE_CUH_
