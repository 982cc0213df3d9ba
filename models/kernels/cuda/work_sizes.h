#ifndef SLUICE_MODELS_KERNELS_CUDA_WORK_SIZES_H_
#define SLUICE_MODELS_KERNELS_CUDA_WORK_SIZES_H_

#include <cstddef>
#include <cstdint>

#include "models/kernels/cuda/attention/attention_arguments.h"
#include "models/kernels/cuda/kernel_choice.h"
#include "models/kernels/cuda/launch_sizes.h"
#include "models/kernels/cuda/products/matmul_shape.h"
#include "models/kernels/kernels.h"

// Bytes of work areas and packed weights, from shapes alone. Needs no CUDA: the kernels ask for
// them, and so does the record of launches (../record), by which the memory of a GPU's run is
// predicted where there is none.
namespace sluice::cuda {

inline int64_t FloatBytes(int64_t values) { return values * SizeOf(DType::kFloat32); }

// Of a Linear. Packed: the copy of the weights, then that of the bias.
inline size_t PackedWeightBytes(const LinearShape& shape) {
  if (!CopiesWeight(shape)) return 0;
  return WorkBytes(shape.in * shape.out_width() * SizeOf(shape.dtype));
}
inline size_t PackedBytes(const LinearShape& shape) {
  const size_t bias = RoundsBias(shape) ? WorkBytes(shape.out * SizeOf(shape.dtype)) : 0;
  return PackedWeightBytes(shape) + bias;
}

// Of column sums, one tensor after the other: one row for each chunk of rows.
inline int64_t ColumnChunks(const SummedColumns& tensor) {
  return CeilDiv(tensor.rows, ColumnChunkRows(tensor.rows, tensor.columns));
}
inline size_t ColumnPartsBytes(const SummedColumns& tensor) {
  return WorkBytes(FloatBytes(ColumnChunks(tensor) * tensor.columns));
}
inline size_t ColumnSumsWorkspace(absl::Span<const SummedColumns> tensors) {
  size_t bytes = 0;
  for (const SummedColumns& tensor : tensors) bytes += ColumnPartsBytes(tensor);
  return bytes;
}

// Of attention's backward pass: the statistics of all queries, padded to whole tiles.
inline size_t AttentionBackwardWorkspace(const AttentionShape& shape) {
  return static_cast<size_t>(shape.batch * shape.heads *
                             attention::PaddedSeq(static_cast<int>(shape.seq))) *
         sizeof(attention::RowStatistics);
}
// Of attention with a cache: for each part of a row's keys its result, its maximum and its sum.
inline size_t AttendCachedWorkspace(const AttentionShape& shape, int64_t positions) {
  return WorkBytes(
      FloatBytes(shape.seq * shape.heads * CachedParts(positions) * (shape.width + 2)));
}

// Of the embedding's backward pass: two lists of the rows' keys, and the sums of entries that go on
// beyond a window: of the one that came from before it, then of the one that goes on behind it.
constexpr int64_t kSortKeyBytes = 8;
inline size_t SortKeysBytes(int64_t rows) { return WorkBytes(rows * kSortKeyBytes); }
inline size_t EmbeddingBackwardWorkspace(int64_t rows, int64_t dim) {
  return 2 * SortKeysBytes(rows) + WorkBytes(FloatBytes(2 * CeilDiv(rows, kRowWindow) * dim));
}

// Of a norm's backward pass: each block's kNormSums rows.
template <bool kCentered>
inline size_t NormBackwardWorkspace(int64_t rows, int64_t dim) {
  const int64_t blocks = CeilDiv(rows, NormBlockRows(rows, dim));
  return WorkBytes(FloatBytes(blocks * kNormSums<kCentered> * dim));
}
inline size_t LayerNormBackwardWorkspace(int64_t rows, int64_t dim) {
  return NormBackwardWorkspace<true>(rows, dim);
}
inline size_t RmsNormBackwardWorkspace(int64_t rows, int64_t dim) {
  return NormBackwardWorkspace<false>(rows, dim);
}

// Of cross-entropy: each row's loss, then whether it is right.
inline size_t RowLossBytes(int64_t rows) {
  return WorkBytes(rows * static_cast<int64_t>(sizeof(double)));
}
inline size_t CrossEntropyWorkspace(int64_t rows, int64_t /*classes*/) {
  return RowLossBytes(rows) + WorkBytes(rows * static_cast<int64_t>(sizeof(int32_t)));
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_WORK_SIZES_H_
