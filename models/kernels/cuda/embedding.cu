#include <algorithm>
#include <utility>

#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/embedding.cuh"
#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda/launch.h"

namespace sluice::cuda {
namespace {

// Bytes of one of the two lists of keys in the work area.
size_t KeyBytes(int64_t rows) { return WorkBytes(rows * static_cast<int64_t>(sizeof(SortKey))); }

void Zero(Stream stream, int64_t n, float* values) {
  (void)cudaMemsetAsync(values, 0, static_cast<size_t>(n) * sizeof(float), Queue(stream));
  NoteLastCudaError("embedding_backward");
}

// Sorts the rows by token; returns where in the work area the keys are.
const SortKey* SortRows(Stream stream, const int32_t* tokens, int64_t rows, void* workspace) {
  auto* keys = static_cast<SortKey*>(workspace);
  auto* merged = reinterpret_cast<SortKey*>(static_cast<std::byte*>(workspace) + KeyBytes(rows));
  Launch("embedding_backward", stream, Blocks(rows, kSortTile), kSortThreads, SortTilesKernel,
         tokens, rows, keys);
  for (int64_t run = kSortTile; run < rows; run *= 2) {
    Launch("embedding_backward", stream, Blocks(rows, kMergeThreads), kMergeThreads,
           MergeRunsKernel, rows, run, keys, merged);
    std::swap(keys, merged);
  }
  return keys;
}

}  // namespace

void EmbeddingForward(Stream stream, DType dtype, const int32_t* tokens, int64_t rows, int64_t seq,
                      int64_t dim, const float* wte, const float* wpe, void* y) {
  if (rows == 0) return;
  Dispatch(dtype, dim % kPart == 0 && Aligned(wte, wpe, y), [&](auto aligned, auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    Launch("embedding_forward", stream, static_cast<unsigned>(rows), kEmbeddingThreads,
           EmbeddingForwardKernel<aligned.value, T>, tokens, seq, dim, wte, wpe,
           static_cast<T*>(y));
  });
}

size_t EmbeddingBackwardWorkspace(int64_t rows, int64_t) { return 2 * KeyBytes(rows); }

void EmbeddingBackward(Stream stream, DType dtype, const int32_t* tokens, int64_t rows, int64_t seq,
                       int64_t dim, int64_t vocab, int64_t max_seq, const void* dy, float* dwte,
                       float* dwpe, bool accumulate, void* workspace) {
  if (!accumulate) {
    Zero(stream, vocab * dim, dwte);
    Zero(stream, max_seq * dim, dwpe);
  }
  if (rows > 0) {
    const SortKey* const keys = SortRows(stream, tokens, rows, workspace);
    const auto positions = static_cast<unsigned>(std::min(rows, seq));
    Dispatch(dtype, dim % kPart == 0 && Aligned(dy, dwte, dwpe), [&](auto aligned, auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      const T* const gradient = static_cast<const T*>(dy);
      Launch("embedding_backward", stream, static_cast<unsigned>(rows), kEmbeddingThreads,
             AddTokenRowsKernel<aligned.value, T>, rows, keys, dim, gradient, dwte);
      Launch("embedding_backward", stream, positions, kEmbeddingThreads,
             AddPositionRowsKernel<aligned.value, T>, rows, seq, dim, gradient, dwpe);
    });
  }
}

}  // namespace sluice::cuda
