#include <algorithm>
#include <utility>

#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/embedding.cuh"
#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda/launch.h"

namespace sluice::cuda {
namespace {

static_assert(sizeof(SortKey) == kSortKeyBytes);

void Zero(Stream stream, int64_t n, float* values) {
  (void)cudaMemsetAsync(values, 0, static_cast<size_t>(n) * sizeof(float), Queue(stream));
  NoteLastCudaError("embedding_backward");
}

// Sorts the rows by entry; returns where in the work area the keys are.
template <class EntryOfRow>
const SortKey* SortRows(Stream stream, const EntryOfRow& entry, int64_t rows, void* workspace) {
  auto* keys = static_cast<SortKey*>(workspace);
  auto* merged =
      reinterpret_cast<SortKey*>(static_cast<std::byte*>(workspace) + SortKeysBytes(rows));
  Launch("embedding_backward", stream, Blocks(rows, kSortTile), kSortThreads,
         SortTilesKernel<EntryOfRow>, entry, rows, keys);
  for (int64_t run = kSortTile; run < rows; run *= 2) {
    Launch("embedding_backward", stream, Blocks(rows, kMergeThreads), kMergeThreads,
           MergeRunsKernel, rows, run, keys, merged);
    std::swap(keys, merged);
  }
  return keys;
}

// table[entry of the row, :] += scale * dy[row, :].
template <class EntryOfRow>
void AddRows(Stream stream, const EntryOfRow& entry, DType dtype, int64_t rows, int64_t dim,
             float scale, const void* dy, float* table, void* workspace) {
  const SortKey* const keys = SortRows(stream, entry, rows, workspace);
  auto* const parts =
      reinterpret_cast<float*>(static_cast<std::byte*>(workspace) + 2 * SortKeysBytes(rows));
  const unsigned windows = Blocks(rows, kRowWindow);
  Dispatch(dtype, dim % kPart == 0 && Aligned(dy, table, parts), [&](auto aligned, auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    Launch("embedding_backward", stream, windows, kEmbeddingThreads,
           AddWindowsKernel<aligned.value, T>, rows, keys, dim, scale, static_cast<const T*>(dy),
           table, parts);
    Launch("embedding_backward", stream, windows, kEmbeddingThreads,
           AddCarriedKernel<aligned.value>, rows, keys, dim, static_cast<const float*>(parts),
           table);
  });
}

// The same for the positions of sequences that are one document each, which are in order already.
void AddPositionRows(Stream stream, DType dtype, int64_t rows, int64_t seq, int64_t dim,
                     const void* dy, float* dwpe) {
  Dispatch(dtype, dim % kPart == 0 && Aligned(dy, dwpe), [&](auto aligned, auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    Launch("embedding_backward", stream, static_cast<unsigned>(std::min(rows, seq)),
           kEmbeddingThreads, AddPositionRowsKernel<aligned.value, T>, rows, seq, dim,
           static_cast<const T*>(dy), dwpe);
  });
}

}  // namespace

void EmbeddingForward(Stream stream, DType dtype, const int32_t* tokens, const int32_t* starts,
                      int64_t rows, int64_t seq, int64_t dim, float scale, DType table_dtype,
                      const void* wte, const void* wpe, void* y) {
  if (rows == 0) return;
  const bool whole = dim % kPart == 0 && Aligned(wte, wpe, y);
  Dispatch(dtype, whole, [&](auto aligned, auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    Dispatch(table_dtype, true, [&](auto, auto* table) {
      using From = std::remove_pointer_t<decltype(table)>;
      Launch("embedding_forward", stream, static_cast<unsigned>(rows), kEmbeddingThreads,
             EmbeddingForwardKernel<aligned.value, From, T>, tokens, starts, seq, dim, scale,
             static_cast<const From*>(wte), static_cast<const From*>(wpe), static_cast<T*>(y));
    });
  });
}

void EmbeddingBackward(Stream stream, DType dtype, const int32_t* tokens, const int32_t* starts,
                       int64_t rows, int64_t seq, int64_t dim, int64_t vocab, int64_t max_seq,
                       float scale, const void* dy, float* dwte, float* dwpe, bool accumulate,
                       void* workspace) {
  if (!accumulate) {
    Zero(stream, vocab * dim, dwte);
    if (dwpe != nullptr) Zero(stream, max_seq * dim, dwpe);
  }
  if (rows == 0) return;
  AddRows(stream, TokenOfRow{tokens}, dtype, rows, dim, scale, dy, dwte, workspace);
  if (dwpe == nullptr) return;
  if (starts == nullptr) {
    AddPositionRows(stream, dtype, rows, seq, dim, dy, dwpe);
  } else {
    AddRows(stream, PositionOfRow{starts, seq}, dtype, rows, dim, 1.0f, dy, dwpe, workspace);
  }
}

}  // namespace sluice::cuda
