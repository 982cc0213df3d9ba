#ifndef SLUICE_MODELS_KERNELS_CUDA_ELEMENTWISE_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ELEMENTWISE_CUH_

#include "models/kernels/cuda/vector.cuh"
#include "models/kernels/dropout_mask.h"
#include "models/kernels/kernels.h"

namespace sluice::cuda {

constexpr int kFlatThreads = 256;

// The offset in a flat tensor at which a thread's part begins.
template <int kN>
__device__ inline int64_t FlatStart() {
  return (static_cast<int64_t>(blockIdx.x) * kFlatThreads + threadIdx.x) * kN;
}

// Flat tensors of fp32 values, and where their sums go.
template <class Sum>
struct FlatList {
  const float* values[kFlatTensors];
  Sum* sums[kFlatTensors];
  int64_t n[kFlatTensors];
  unsigned first_block[kFlatTensors];
  int count;
};
static_assert(sizeof(FlatList<double>) <= 4000);

constexpr int64_t kAddedValues = kFlatThreads * kFloatPart;  // of a block

// Each tensor's sums (+)= its values.
template <bool kAligned>
__global__ void __launch_bounds__(kFlatThreads)
    AddKernel(const __grid_constant__ FlatList<float> list, bool add) {
  const int t = ListedTensor(list.first_block, list.count);
  const int64_t n = list.n[t];
  const int64_t first = static_cast<int64_t>(blockIdx.x - list.first_block[t]) * kAddedValues +
                        static_cast<int64_t>(threadIdx.x) * kFloatPart;
  ForOnePart<kAligned, kFloatPart>(first, n, [&](auto whole, int64_t i) {
    float values[kFloatPart], sums[kFloatPart];
    LoadPart<whole.value>(list.values[t], i, n, 0.0f, values);
    if (add) {
      LoadPart<whole.value>(list.sums[t], i, n, 0.0f, sums);
#pragma unroll
      for (int j = 0; j < kFloatPart; ++j) values[j] += sums[j];
    }
    StorePart<whole.value>(values, i, n, list.sums[t]);
  });
}

// y = added + x * the mask's factors.
template <bool kAligned, class T>
__global__ void __launch_bounds__(kFlatThreads)
    DropoutKernel(int64_t n, DropoutMask mask, const T* x, const T* added, T* y) {
  ForOnePart<kAligned, kPart>(FlatStart<kPart>(), n, [&](auto whole, int64_t i) {
    float values[kPart], sums[kPart];
    LoadPart<whole.value>(x, i, n, 0.0f, values);
    if (added != nullptr) LoadPart<whole.value>(added, i, n, 0.0f, sums);
    uint64_t block = ~uint64_t{0};
    r123::Philox4x32::ctr_type drawn = {};
    for (int j = 0; j < kPart; ++j) {
      const float factor = mask.Factor(static_cast<uint64_t>(i + j), &block, &drawn);
      const float kept = factor == 0 ? 0.0f : values[j] * factor;
      values[j] = added == nullptr ? kept : sums[j] + kept;
    }
    StorePart<whole.value>(values, i, n, y);
  });
}

// x *= factor.
template <bool kAligned, class T>
__global__ void __launch_bounds__(kFlatThreads) ScaleKernel(int64_t n, float factor, T* x) {
  ForOnePart<kAligned, kPart>(FlatStart<kPart>(), n, [&](auto whole, int64_t i) {
    float values[kPart];
    LoadPart<whole.value>(x, i, n, 0.0f, values);
#pragma unroll
    for (int j = 0; j < kPart; ++j) values[j] *= factor;
    StorePart<whole.value>(values, i, n, x);
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

// A warp takes a block of kSquaresBlock values of one of the tensors.
template <bool kAligned>
__global__ void __launch_bounds__(kSquaresWarps* kWarp)
    BlockSquaresKernel(const __grid_constant__ FlatList<double> list, int64_t block_size) {
  const int t = ListedTensor(list.first_block, list.count);
  const int64_t n = list.n[t];
  const float* const x = list.values[t];
  const int64_t block =
      static_cast<int64_t>(blockIdx.x - list.first_block[t]) * kSquaresWarps + threadIdx.x / kWarp;
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
  if (threadIdx.x % kWarp == 0) list.sums[t][block] = sum;
}

constexpr int kRowThreads = 512;
struct RowList {
  GroupedSum rows[kListedRows];
};

// The sum of the row's values in group g; if the group was begun before, added to its sum so far.
__device__ inline double GroupSum(const GroupedSum& row, int64_t g, int64_t group) {
  const int64_t start = g * group;
  const int64_t end = row.first + row.n;
  const int64_t low = start > row.first ? start : row.first;
  const int64_t high = start + group < end ? start + group : end;
  double sum = start < row.first ? row.sums[1] : 0.0;
#pragma unroll 8
  for (int64_t i = low; i < high; ++i) sum += row.values[i - row.first];
  return sum;
}

// One block per row, one thread per group; the first thread adds the groups.
__global__ void __launch_bounds__(kRowThreads)
    AddInGroupsKernel(const __grid_constant__ RowList list, int64_t group) {
  __shared__ double of_group[kRowThreads];
  const GroupedSum& row = list.rows[blockIdx.x];
  const int64_t end = row.first + row.n;
  const int thread = threadIdx.x;
  double whole = row.sums[0], part = row.sums[1];
  for (int64_t first = row.first / group; first * group < end; first += kRowThreads) {
    if ((first + thread) * group < end) of_group[thread] = GroupSum(row, first + thread, group);
    __syncthreads();
    for (int k = 0; thread == 0 && k < kRowThreads && (first + k) * group < end; ++k) {
      const bool complete = (first + k + 1) * group <= end;
      if (complete) whole += of_group[k];
      part = complete ? 0.0 : of_group[k];
    }
    __syncthreads();
  }
  if (thread == 0) {
    row.sums[0] = whole;
    row.sums[1] = part;
  }
}

__global__ void SetKernel(bool* flag) {
  if (threadIdx.x == 0) *flag = true;
}

__device__ inline bool IsFinite(float x) {
  return (__float_as_uint(x) & 0x7F800000u) != 0x7F800000u;
}

// Clears the flag where a value is not finite; all threads that write it write the same value.
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
