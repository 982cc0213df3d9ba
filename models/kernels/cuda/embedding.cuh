#ifndef SLUICE_MODELS_KERNELS_CUDA_EMBEDDING_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_EMBEDDING_CUH_

#include "models/kernels/cuda/vector.cuh"

namespace sluice::cuda {

constexpr int kEmbeddingThreads = 128;
// An entry with more rows than this is frequent.
constexpr int kFrequent = 64;
constexpr int kFrequentWarps = 8;
// Blocks on a multiprocessor: without a number nvcc 13.0 would have 5 for sm_90, and spill.
constexpr int kFrequentBlocks = 4;

// Of a row within its document; `starts` as in Kernels.
__device__ inline int64_t PositionOf(int64_t row, int64_t seq, const int32_t* starts) {
  return row % seq - (starts == nullptr ? 0 : starts[row]);
}

// One block per row. kWhole, here and below: all tensors are aligned to 16 bytes and dim is a
// multiple of kPart.
template <bool kWhole, class From, class T>
__global__ void __launch_bounds__(kEmbeddingThreads)
    EmbeddingForwardKernel(const int32_t* tokens, const int32_t* starts, int64_t seq, int64_t dim,
                           float scale, const From* wte, const From* wpe, T* y) {
  const int64_t row = blockIdx.x;
  const From* const token = wte + tokens[row] * dim;
  const From* const position = wpe == nullptr ? nullptr : wpe + PositionOf(row, seq, starts) * dim;
  float values[kPart], positions[kPart];
  for (int64_t i = threadIdx.x * kPart; i < dim; i += kEmbeddingThreads * kPart) {
    LoadPart<kWhole>(token, i, dim, 0.0f, values);
    if (position != nullptr) LoadPart<kWhole>(position, i, dim, 0.0f, positions);
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      values[j] = position == nullptr ? values[j] * scale : fmaf(values[j], scale, positions[j]);
    }
    StorePart<kWhole>(values, i, dim, y + row * dim);
  }
}

// Rows are sorted by the entry of a table that they read (a token or, where documents begin within
// sequences, a position) and, within an entry, by row. Keys are entry << 32 | row: no two are
// equal, so there is only one order.
using SortKey = unsigned long long;
constexpr int kMergeThreads = 256;
constexpr SortKey kNoKey = ~0ull;

struct TokenOfRow {
  const int32_t* tokens;
  __device__ int64_t operator()(int64_t row) const { return tokens[row]; }
};
struct PositionOfRow {
  const int32_t* starts;
  int64_t seq;
  __device__ int64_t operator()(int64_t row) const { return PositionOf(row, seq, starts); }
};

__device__ inline int64_t EntryOf(SortKey key) { return static_cast<int64_t>(key >> 32); }
__device__ inline int64_t RowOf(SortKey key) { return static_cast<int64_t>(key & 0xFFFFFFFFu); }

// Sorts each tile of kSortTile rows (Batcher's bitonic network).
template <class EntryOfRow>
__global__ void __launch_bounds__(kSortThreads)
    SortTilesKernel(EntryOfRow entry, int64_t rows, SortKey* keys) {
  __shared__ SortKey tile[kSortTile];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kSortTile;
  for (int i = threadIdx.x; i < kSortTile; i += kSortThreads) {
    const int64_t row = first + i;
    tile[i] =
        row < rows ? static_cast<SortKey>(entry(row)) << 32 | static_cast<SortKey>(row) : kNoKey;
  }
  for (int size = 2; size <= kSortTile; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      const int thread = threadIdx.x;
      const int low = thread / stride * 2 * stride + thread % stride;
      const int high = low + stride;
      const bool descending = (low & size) != 0;
      const SortKey a = tile[low], b = tile[high];
      if (descending ? a < b : b < a) {
        tile[low] = b;
        tile[high] = a;
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kSortTile; i += kSortThreads) {
    if (first + i < rows) keys[first + i] = tile[i];
  }
}

// Merges pairs of sorted runs of `run` keys: a key's place is its own index plus the number of
// smaller keys in the other run.
__global__ void __launch_bounds__(kMergeThreads)
    MergeRunsKernel(int64_t rows, int64_t run, const SortKey* keys, SortKey* merged) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kMergeThreads + threadIdx.x;
  if (i >= rows) return;
  const SortKey key = keys[i];
  const int64_t mine = i / run * run;
  const int64_t pair = i / (2 * run) * 2 * run;
  const int64_t other = mine == pair ? pair + run : pair;
  int64_t low = other, high = other + run;
  if (low > rows) low = rows;
  if (high > rows) high = rows;
  const int64_t start = low;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (keys[middle] < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  merged[pair + (i - mine) + (low - start)] = key;
}

// Whether an entry whose first key is keys[first] has more rows than AddSortedRowsKernel adds.
__device__ inline bool IsFrequent(int64_t rows, const SortKey* keys, int64_t first) {
  return first + kFrequent < rows && EntryOf(keys[first + kFrequent]) == EntryOf(keys[first]);
}

// Whether an entry's keys begin there.
__device__ inline bool IsFirst(const SortKey* keys, int64_t first) {
  return first == 0 || EntryOf(keys[first - 1]) != EntryOf(keys[first]);
}

// One block per place among the sorted keys; the block of the first key of an entry adds all rows
// of that entry, in order, unless it is frequent. table[entry, :] += scale * dy[row, :].
template <bool kWhole, class T>
__global__ void __launch_bounds__(kEmbeddingThreads)
    AddSortedRowsKernel(int64_t rows, const SortKey* keys, int64_t dim, float scale, const T* dy,
                        float* table) {
  constexpr int kAhead = 8;  // rows that are loaded at the same time
  const int64_t first = blockIdx.x;
  const int64_t entry = EntryOf(keys[first]);
  if (!IsFirst(keys, first) || IsFrequent(rows, keys, first)) return;
  float* const to = table + entry * dim;
  for (int64_t i = threadIdx.x * kPart; i < dim; i += kEmbeddingThreads * kPart) {
    float sums[kPart], values[kAhead][kPart];
    LoadPart<kWhole>(to, i, dim, 0.0f, sums);
    bool more = true;
    for (int64_t at = first; more; at += kAhead) {
      bool takes[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const SortKey key = at + k < rows ? keys[at + k] : kNoKey;
        takes[k] = EntryOf(key) == entry;
        // A row that does not count is still read, and its value not used: no branch delays the
        // loads.
        const int64_t row = RowOf(takes[k] ? key : keys[first]);
        LoadPart<kWhole>(dy + row * dim, i, dim, 0.0f, values[k]);
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
#pragma unroll
        for (int j = 0; j < kPart; ++j) {
          sums[j] = takes[k] ? fmaf(values[k][j], scale, sums[j]) : sums[j];
        }
      }
      more = takes[kAhead - 1];
    }
    StorePart<kWhole>(sums, i, dim, to);
  }
}

// The same for frequent entries, such as a space in a text of bytes, which may have thousands of
// rows. Block (kFrequent places among the sorted keys, columns / kWarpPart): at most one frequent
// entry begins in those places. All warps load rows, and then each thread adds one column, in order.
template <bool kWhole, class T>
__global__ void __launch_bounds__(kFrequentWarps* kWarp, kFrequentBlocks)
    AddFrequentRowsKernel(int64_t rows, const SortKey* keys, int64_t dim, float scale, const T* dy,
                          float* table) {
  constexpr int kEach = 4;  // rows that a warp loads at the same time
  constexpr int kRows = kEach * kFrequentWarps;
  __shared__ float tile[kRows][kWarpPart];
  __shared__ int64_t found;
  if (threadIdx.x == 0) found = -1;
  __syncthreads();
  const int64_t place = static_cast<int64_t>(blockIdx.x) * kFrequent + threadIdx.x;
  if (threadIdx.x < kFrequent && place < rows && IsFirst(keys, place) &&
      IsFrequent(rows, keys, place)) {
    found = place;
  }
  __syncthreads();
  const int64_t first = found;
  if (first < 0) return;
  const int64_t entry = EntryOf(keys[first]);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int64_t start = static_cast<int64_t>(blockIdx.y) * kWarpPart;
  const int64_t i = start + lane * kPart, column = start + threadIdx.x;
  float sum = column < dim ? table[entry * dim + column] : 0.0f;
  bool more = true;
  for (int64_t at = first; more; at += kRows) {
    float values[kEach][kPart] = {};
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int64_t key = at + warp * kEach + k;
      const bool takes = key < rows && EntryOf(keys[key]) == entry;
      const int64_t row = RowOf(keys[takes ? key : first]);
      if (i < dim) LoadPart<kWhole>(dy + row * dim, i, dim, 0.0f, values[k]);
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
#pragma unroll
      for (int j = 0; j < kPart; ++j) tile[warp * kEach + k][lane * kPart + j] = values[k][j];
    }
    __syncthreads();
#pragma unroll 8
    for (int r = 0; r < kRows; ++r) {
      const bool takes = at + r < rows && EntryOf(keys[at + r]) == entry;
      if (takes) sum = fmaf(tile[r][threadIdx.x], scale, sum);
      more = takes;
    }
    __syncthreads();
  }
  if (column < dim) table[entry * dim + column] = sum;
}
static_assert(kFrequentWarps * kWarp == kWarpPart);  // a thread for each column
static_assert(kFrequent <= kWarpPart);

// For sequences of one document each. One block per position: dwpe[position, :] += its rows of dy,
// in order.
template <bool kWhole, class T>
__global__ void __launch_bounds__(kEmbeddingThreads)
    AddPositionRowsKernel(int64_t rows, int64_t seq, int64_t dim, const T* dy, float* dwpe) {
  const int64_t position = blockIdx.x;
  float* const to = dwpe + position * dim;
  for (int64_t i = threadIdx.x * kPart; i < dim; i += kEmbeddingThreads * kPart) {
    float sums[kPart], values[kPart];
    LoadPart<kWhole>(to, i, dim, 0.0f, sums);
#pragma unroll 4
    for (int64_t row = position; row < rows; row += seq) {
      LoadPart<kWhole>(dy + row * dim, i, dim, 0.0f, values);
#pragma unroll
      for (int j = 0; j < kPart; ++j) sums[j] += values[j];
    }
    StorePart<kWhole>(sums, i, dim, to);
  }
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_EMBEDDING_CUH_
