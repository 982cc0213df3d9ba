#ifndef SLUICE_MODELS_KERNELS_CUDA_COLUMN_SUMS_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_COLUMN_SUMS_CUH_

#include "models/kernels/cuda/vector.cuh"

// Column sums in two steps, each in an order that depends only on the shape: parts[chunk, column]
// over a chunk of rows, then over those parts in order.
namespace sluice::cuda {

constexpr int kColumnWarps = 8;
constexpr int kColumnThreads = kColumnWarps * kWarp;
constexpr int kColumnBlocks = 4;  // on a multiprocessor: a thread has registers for its batch
constexpr int kAddWarps = 32;

// Rows of which a thread has its part under way at a time: 128 bytes in all, or two rows where
// values are read one by one.
template <bool kWhole, class T>
constexpr int kColumnBatch = kWhole ? 128 / (kPart * sizeof(T)) : 2;

// sum[kPart] += the kPart columns from `start` of the first of `rows` rows from x and of each
// kColumnWarps-th after it, for a batch. What is past them adds zeros, so that no loop over the
// last rows waits for one at a time.
template <bool kWhole, class T>
__device__ inline void AddBatch(const T* x, int rows, int64_t start, int64_t columns,
                                float (&sum)[kPart]) {
  constexpr int kBatch = kColumnBatch<kWhole, T>;
  const auto add = [&](const float(&values)[kPart]) {
#pragma unroll
    for (int j = 0; j < kPart; ++j) sum[j] += values[j];
  };
  if constexpr (kWhole) {
    Packed<T> parts[kBatch] = {};
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (b * kColumnWarps < rows) parts[b] = LoadPacked(x + b * kColumnWarps * columns + start);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      float values[kPart];
      Unpack(parts[b], values);
      add(values);
    }
  } else {
    float values[kBatch][kPart] = {};
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (b * kColumnWarps < rows) {
        LoadPart<false>(x + b * kColumnWarps * columns, start, columns, 0.0f, values[b]);
      }
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) add(values[b]);
  }
}

struct ColumnsList {
  const void* x[kSummedTensors];
  float* parts[kSummedTensors];
  int64_t rows[kSummedTensors];
  int64_t columns[kSummedTensors];
  int64_t chunk_rows[kSummedTensors];
  unsigned first_block[kSummedTensors];
  int count;
};

// Block (chunk * blocks across + column / kWarpPart) of a tensor, so that blocks that run at the same
// time read whole rows: its warps share the rows of its chunk, its lanes the columns. kWhole: all x
// are aligned to 16 bytes and columns are a multiple of kPart.
template <bool kWhole, class T>
__global__ void __launch_bounds__(kColumnThreads, kColumnBlocks)
    ColumnPartsKernel(const __grid_constant__ ColumnsList list) {
  __shared__ float sums[kColumnWarps][kPart][kWarp + 1];  // + 1: no two lanes in one bank
  const int t = ListedTensor(list.first_block, list.count);
  const int64_t rows = list.rows[t], columns = list.columns[t], chunk_rows = list.chunk_rows[t];
  const T* const x = static_cast<const T*>(list.x[t]);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const auto across = static_cast<unsigned>((columns + kWarpPart - 1) / kWarpPart);
  const unsigned block = blockIdx.x - list.first_block[t];
  const int64_t chunk = block / across;
  const int64_t first_column = static_cast<int64_t>(block % across) * kWarpPart;
  const int64_t begin = chunk * chunk_rows;
  const auto count = static_cast<int>(begin + chunk_rows < rows ? chunk_rows : rows - begin);
  float sum[kPart] = {};
  const int64_t start = first_column + lane * kPart;
  if (start < columns) {
    constexpr int kRows = kColumnBatch<kWhole, T> * kColumnWarps;
    const T* from = x + (begin + warp) * columns;
    for (int row = warp; row < count; row += kRows, from += kRows * columns) {
      AddBatch<kWhole>(from, count - row, start, columns, sum);
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
  list.parts[t][chunk * columns + column] = total;
}
static_assert(kColumnThreads == kWarpPart);  // a thread for each column in the end

struct PartsList {
  const float* parts[kSummedTensors];
  float* sums[kSummedTensors];
  int64_t parts_of[kSummedTensors];
  int64_t columns[kSummedTensors];
  unsigned first_block[kSummedTensors];
  int count;
};

// A block takes kWarp columns of a tensor, its warps share the parts. They are kAddWarps, or one per
// part where all tensors have fewer parts: the same bits, as a warp without a part would add +0.
__global__ void __launch_bounds__(kAddWarps* kWarp)
    AddPartsKernel(const __grid_constant__ PartsList list, bool accumulate) {
  __shared__ float of_warp[kAddWarps][kWarp];
  const int t = ListedTensor(list.first_block, list.count);
  const int64_t count = list.parts_of[t], columns = list.columns[t];
  const float* const parts = list.parts[t];
  float* const sums = list.sums[t];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int64_t column = static_cast<int64_t>(blockIdx.x - list.first_block[t]) * kWarp + lane;
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
  for (int w = 1; w < kAddWarps; ++w) {
    if (w < count) total += of_warp[w][lane];
  }
  sums[column] = accumulate ? sums[column] + total : total;
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_COLUMN_SUMS_CUH_
