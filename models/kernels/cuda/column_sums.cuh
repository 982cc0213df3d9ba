#ifndef SLUICE_MODELS_KERNELS_CUDA_COLUMN_SUMS_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_COLUMN_SUMS_CUH_

#include "models/kernels/cuda/vector.cuh"

// Column sums in two steps, each in an order that depends only on the shape: parts[chunk, column]
// over kChunkRows rows, then over those parts in order.
namespace sluice::cuda {

constexpr int64_t kChunkRows = 64;
constexpr int kColumnWarps = 8;
constexpr int kColumnThreads = kColumnWarps * kWarp;
constexpr int kAddWarps = 32;

// Block (chunk, columns / kWarpPart): its warps share the rows, its lanes the columns. kWhole: x
// is aligned to 16 bytes and columns are a multiple of kPart.
template <bool kWhole, class T>
__global__ void __launch_bounds__(kColumnThreads)
    ColumnPartsKernel(int64_t rows, int64_t columns, const T* x, float* parts) {
  __shared__ float sums[kColumnWarps][kPart][kWarp + 1];  // + 1: no two lanes in one bank
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int64_t first_column = static_cast<int64_t>(blockIdx.y) * kWarpPart;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kChunkRows;
  const int64_t end = first + kChunkRows < rows ? first + kChunkRows : rows;
  float sum[kPart] = {}, values[kPart];
  const int64_t start = first_column + lane * kPart;
  if (start < columns) {
#pragma unroll 4
    for (int64_t row = first + warp; row < end; row += kColumnWarps) {
      LoadPart<kWhole>(x + row * columns, start, columns, 0.0f, values);
#pragma unroll
      for (int j = 0; j < kPart; ++j) sum[j] += values[j];
    }
  }
#pragma unroll
  for (int j = 0; j < kPart; ++j) sums[warp][j][lane] = sum[j];
  __syncthreads();
  const int part = threadIdx.x / kPart, j = threadIdx.x % kPart;
  const int64_t column = first_column + threadIdx.x;
  if (column >= columns) return;
  float total = sums[0][j][part];
#pragma unroll
  for (int w = 1; w < kColumnWarps; ++w) total += sums[w][j][part];
  parts[static_cast<int64_t>(blockIdx.x) * columns + column] = total;
}
static_assert(kColumnThreads == kWarpPart);  // a thread for each column in the end

// A block takes kWarp columns, its warps share the parts.
__global__ void __launch_bounds__(kAddWarps* kWarp)
    AddPartsKernel(int64_t count, int64_t columns, const float* parts, float* sums,
                   bool accumulate) {
  __shared__ float of_warp[kAddWarps][kWarp];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarp + lane;
  float sum = 0;
  if (column < columns) {
#pragma unroll 8
    for (int64_t i = warp; i < count; i += kAddWarps) sum += parts[i * columns + column];
  }
  of_warp[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  float total = of_warp[0][lane];
#pragma unroll
  for (int w = 1; w < kAddWarps; ++w) total += of_warp[w][lane];
  sums[column] = accumulate ? sums[column] + total : total;
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_COLUMN_SUMS_CUH_
