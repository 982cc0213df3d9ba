#ifndef SLUICE_MODELS_KERNELS_CUDA_EMBEDDING_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_EMBEDDING_CUH_

#include "models/kernels/cuda/vector.cuh"

namespace sluice::cuda {

constexpr int kEmbeddingThreads = 128;

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

// Sorted rows are added window by window, kRowWindow places among the keys each, so that even of an
// entry with thousands of rows, such as a space in a text of bytes, no sum waits for all the others.
// The sums of a window are those of its rows in their order; an entry of several windows is the sum
// of its windows' in their order.

// One block per window. table[entry, :] += scale * dy[row, :] for entries that begin and end within
// it. The sum of an entry that began in a window before goes to parts[window, 0, :], and that of one
// that begins in this window and goes on in the next to parts[window, 1, :].
template <bool kWhole, class T>
__global__ void __launch_bounds__(kEmbeddingThreads)
    AddWindowsKernel(int64_t rows, const SortKey* keys, int64_t dim, float scale, const T* dy,
                     float* table, float* parts) {
  constexpr int kAhead = 4;  // rows that are loaded at the same time
  // With the key before the window and the one behind it.
  __shared__ SortKey of_window[kRowWindow + 2];
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kRowWindow;
  const int count = static_cast<int>(begin + kRowWindow < rows ? kRowWindow : rows - begin);
  for (int i = threadIdx.x; i < kRowWindow + 2; i += kEmbeddingThreads) {
    const int64_t place = begin + i - 1;
    of_window[i] = place >= 0 && place < rows ? keys[place] : kNoKey;
  }
  __syncthreads();
  const SortKey* const own = of_window + 1;
  const int64_t before = EntryOf(own[-1]), behind = EntryOf(own[count]);
  float* const carried = parts + static_cast<int64_t>(blockIdx.x) * 2 * dim;
  for (int64_t i = threadIdx.x * kPart; i < dim; i += kEmbeddingThreads * kPart) {
    float sums[kPart] = {};
    for (int at = 0; at < count; at += kAhead) {
      float values[kAhead][kPart], totals[kAhead][kPart];
      // What is not used is still read: no branch delays the loads.
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const SortKey key = own[at + k < count ? at + k : at];
        LoadPart<kWhole>(dy + RowOf(key) * dim, i, dim, 0.0f, values[k]);
        LoadPart<kWhole>(table + EntryOf(key) * dim, i, dim, 0.0f, totals[k]);
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int r = at + k;
        if (r >= count) break;
        const int64_t entry = EntryOf(own[r]);
        const bool first = r == 0 || EntryOf(own[r - 1]) != entry;
        const bool last = r + 1 == count || EntryOf(own[r + 1]) != entry;
        const bool within = entry != before && entry != behind;
#pragma unroll
        for (int j = 0; j < kPart; ++j) {
          const float start = within ? totals[k][j] : 0.0f;
          sums[j] = fmaf(values[k][j], scale, first ? start : sums[j]);
        }
        if (!last) continue;
        float* const carry = carried + (entry == before ? 0 : dim);
        StorePart<kWhole>(sums, i, dim, within ? table + entry * dim : carry);
      }
    }
  }
}

// One block per window. Adds up the parts of an entry that begins in it and goes on behind it.
template <bool kWhole>
__global__ void __launch_bounds__(kEmbeddingThreads)
    AddCarriedKernel(int64_t rows, const SortKey* keys, int64_t dim, const float* parts,
                     float* table) {
  constexpr int kAhead = 8;  // windows of which the sums are loaded at the same time
  const int64_t window = blockIdx.x;
  const int64_t begin = window * kRowWindow, end = begin + kRowWindow;
  if (end >= rows) return;
  const int64_t entry = EntryOf(keys[end - 1]);
  if (EntryOf(keys[end]) != entry) return;
  if (begin > 0 && EntryOf(keys[begin - 1]) == entry) return;
  for (int64_t i = threadIdx.x * kPart; i < dim; i += kEmbeddingThreads * kPart) {
    float sums[kPart], values[kAhead][kPart];
    LoadPart<kWhole>(table + entry * dim, i, dim, 0.0f, sums);
    LoadPart<kWhole>(parts + (window * 2 + 1) * dim, i, dim, 0.0f, values[0]);
#pragma unroll
    for (int j = 0; j < kPart; ++j) sums[j] += values[0][j];
    bool more = true;
    for (int64_t at = window + 1; more; at += kAhead) {
      bool takes[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int64_t place = (at + k) * kRowWindow;
        const int64_t there = EntryOf(keys[place < rows ? place : end]);  // without a branch
        takes[k] = (place < rows) & (there == entry);
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int64_t from = takes[k] ? at + k : window + 1;
        LoadPart<kWhole>(parts + from * 2 * dim, i, dim, 0.0f, values[k]);
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
#pragma unroll
        for (int j = 0; j < kPart; ++j) sums[j] = takes[k] ? sums[j] + values[k][j] : sums[j];
      }
      more = takes[kAhead - 1];
    }
    StorePart<kWhole>(sums, i, dim, table + entry * dim);
  }
}

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
