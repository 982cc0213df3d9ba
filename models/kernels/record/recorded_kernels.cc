#include "models/kernels/record/recorded_kernels.h"

#include <algorithm>

#include "models/kernels/cuda/launch_sizes.h"
#include "models/kernels/cuda/work_sizes.h"
#include "models/kernels/record/recorded_products.h"
#include "models/kernels/record/shared_launches.h"

namespace sluice {
namespace record {
namespace {

void AttendCached(Stream, const AttentionShape& shape, int64_t, int64_t first,
                  const AttentionInput&, void*, void*, void*) {
  if (shape.seq * shape.heads == 0) return;
  const int64_t keys =
      shape.window > 0 ? std::min(first + shape.seq, shape.window + shape.seq) : first + shape.seq;
  LaunchRecord::Add(
      {.kind = KernelKind::kCachedAttention,
       .launches = 3,  // new keys, parts of all, and what they give together
       .bytes = static_cast<double>(2 * (shape.seq * shape.heads + keys * shape.kv_heads) *
                                    shape.width * SizeOf(shape.dtype))});
}

void EmbeddingForward(Stream, DType dtype, const int32_t*, const int32_t* starts, int64_t rows,
                      int64_t seq, int64_t dim, float, DType table_dtype, const void*,
                      const void* wpe, void*) {
  if (rows == 0) return;
  const int64_t ids = (starts == nullptr ? 1 : 2) * SizeOf(DType::kInt32);
  const int64_t positions = wpe == nullptr ? 0 : std::min(rows, seq) * dim * SizeOf(table_dtype);
  Moves(KernelKind::kEmbeddingForward,
        rows * (ids + dim * (SizeOf(table_dtype) + SizeOf(dtype))) + positions);
}

// Rows of dy, each added to a row of a table: as many different ones as there can be.
void AddRows(DType dtype, int64_t rows, int64_t dim, int64_t entries) {
  constexpr int64_t kKey = 8;
  int64_t merges = 0;
  for (int64_t run = cuda::kSortTile; run < rows; run *= 2) ++merges;
  LaunchRecord::Add({.kind = KernelKind::kEmbeddingSort,
                     .launches = static_cast<int>(1 + merges),
                     .bytes = static_cast<double>(rows * (SizeOf(DType::kInt32) + kKey) +
                                                  merges * 2 * rows * kKey)});
  LaunchRecord::Add({.kind = KernelKind::kEmbeddingRows,
                     .launches = 2,  // windows of rows, and what goes on beyond one
                     .bytes = static_cast<double>(2 * rows * kKey + rows * dim * SizeOf(dtype) +
                                                  2 * std::min(rows, entries) * dim * kFloat)});
}

void EmbeddingBackward(Stream, DType dtype, const int32_t*, const int32_t* starts, int64_t rows,
                       int64_t seq, int64_t dim, int64_t vocab, int64_t max_seq, float, const void*,
                       float*, float* dwpe, bool accumulate, void*) {
  if (!accumulate) {
    Moves(KernelKind::kFill, vocab * dim * kFloat);
    if (dwpe != nullptr) Moves(KernelKind::kFill, max_seq * dim * kFloat);
  }
  if (rows == 0) return;
  AddRows(dtype, rows, dim, vocab);
  if (dwpe == nullptr) return;
  if (starts != nullptr) return AddRows(dtype, rows, dim, max_seq);
  Moves(KernelKind::kEmbeddingPositions,
        rows * dim * SizeOf(dtype) + 2 * std::min(rows, seq) * dim * kFloat);
}

void NormForward(DType dtype, int64_t rows, int64_t dim, int statistics, bool residual) {
  if (rows == 0) return;
  Moves(KernelKind::kNormForward,
        rows * dim * SizeOf(dtype) * (residual ? 3 : 2) + (rows + dim) * statistics * kFloat);
}

// `sums`: dgamma, and dbeta of a layer norm.
void NormBackward(DType dtype, int64_t rows, int64_t dim, int sums, bool residual, bool partial) {
  const int64_t blocks = cuda::CeilDiv(rows, cuda::NormBlockRows(rows, dim));
  if (rows > 0) {
    Moves(KernelKind::kNormBackward, rows * dim * SizeOf(dtype) * (residual ? 4 : 3) +
                                         (rows * sums + dim + blocks * sums * dim) * kFloat);
  }
  if (partial) AddParts(blocks, sums * dim, /*accumulate=*/false);
}

void LayerNormForward(Stream, DType dtype, int64_t rows, int64_t dim, float, const void*,
                      const float*, const float*, void*, float*, float*) {
  NormForward(dtype, rows, dim, 2, /*residual=*/false);
}

void LayerNormBackward(Stream, DType dtype, int64_t rows, int64_t dim, const void*, const void*,
                       const float*, const float*, const float*, const void* residual_grad, void*,
                       float* partial, void*) {
  NormBackward(dtype, rows, dim, 2, residual_grad != nullptr, partial != nullptr);
}

void RmsNormForward(Stream, DType dtype, int64_t rows, int64_t dim, float, float, const void*,
                    const float*, const void* residual, void*, float*) {
  NormForward(dtype, rows, dim, 1, residual != nullptr);
}

void RmsNormBackward(Stream, DType dtype, int64_t rows, int64_t dim, float, const void*,
                     const void*, const float*, const float*, const void* residual_grad, void*,
                     float* partial, void*) {
  NormBackward(dtype, rows, dim, 1, residual_grad != nullptr, partial != nullptr);
}

void Activate(Stream, DType dtype, Activation activation, int64_t n, const void*, void*) {
  ActivationForward(dtype, activation, n);
}

void ActivateBack(Stream, DType dtype, Activation activation, int64_t n, const void*,
                  const void* dy, void* dx) {
  ActivationBackward(dtype, activation, n, dx == dy);
}

// A map of n values: `tensors` of them are read or written.
void Map(KernelKind kind, DType dtype, int64_t n, int tensors) {
  if (n > 0) Moves(kind, n * tensors * SizeOf(dtype));
}

void GatedForward(Stream, DType dtype, Activation, int64_t n, const void*, const void*, void*) {
  Map(KernelKind::kGatedForward, dtype, n, 3);
}

void GatedBackward(Stream, DType dtype, Activation, int64_t n, const void*, const void*,
                   const void*, void*, void*) {
  Map(KernelKind::kGatedBackward, dtype, n, 5);
}

void RopeTable(Stream, int64_t seq, int64_t pairs, const float*, float, float*) {
  if (seq == 0) return;
  for (int64_t first = 0; first < pairs; first += cuda::kListedPairs) {
    const int64_t count = std::min<int64_t>(cuda::kListedPairs, pairs - first);
    Moves(KernelKind::kRopeTable, seq * count * 2 * kFloat);
  }
}

// Of the table, and of where documents begin.
int64_t OfPositions(const RopeShape& shape, const int32_t* starts) {
  const int64_t ids = starts == nullptr ? 0 : shape.rows * SizeOf(DType::kInt32);
  return std::min(shape.rows, shape.seq) * shape.width * kFloat + ids;
}

void Rope(Stream, const RopeShape& shape, const float*, const int32_t* starts, bool, void*) {
  const int64_t n = shape.rows * shape.heads * shape.width;
  if (n == 0) return;
  Moves(KernelKind::kRope, 2 * n * SizeOf(shape.dtype) + OfPositions(shape, starts));
}

void CrossEntropy(Stream, const CrossEntropyShape& shape, void*, const int32_t*, float grad_scale,
                  bool, double* loss, int64_t*, void*) {
  constexpr int64_t kRowResult = sizeof(double) + sizeof(int32_t);
  const bool gradient = grad_scale != 0;
  const int64_t row = shape.row_width() * SizeOf(shape.dtype);
  if (shape.rows + (gradient ? shape.padding : 0) > 0) {
    // A row that does not fit into shared memory is read again where its gradient is written.
    const bool kept =
        cuda::EntropyRowBytes(shape.classes, SizeOf(shape.dtype)) <= cuda::kEntropyRowBytes;
    const int64_t passes = !gradient ? 1 : kept ? 2 : 3;
    Moves(KernelKind::kCrossEntropy,
          shape.rows * (passes * row + SizeOf(DType::kInt32) + kRowResult) +
              (gradient ? shape.padding * row : 0));
  }
  if (loss != nullptr) Moves(KernelKind::kCrossEntropyTotal, shape.rows * kRowResult);
}

void SoftCap(Stream, DType dtype, int64_t n, float, void*) {
  Map(KernelKind::kSoftCap, dtype, n, 2);
}

void Dropout(Stream, DType dtype, int64_t n, const DropoutMask&, const void*, const void* added,
             void*) {
  Map(KernelKind::kDropout, dtype, n, added == nullptr ? 2 : 3);
}

void Scale(Stream, DType dtype, int64_t n, float, void*) { Map(KernelKind::kScale, dtype, n, 2); }

void Accumulate(Stream, absl::Span<const AddedTensor> tensors, bool add) {
  Listed(add ? KernelKind::kAddition : KernelKind::kCopy, cuda::kFlatTensors, tensors,
         [&](const AddedTensor& tensor) { return tensor.n * (add ? 3 : 2) * kFloat; });
}

void BlockSquares(Stream, absl::Span<const SquaredTensor> tensors) {
  Listed(KernelKind::kBlockSquares, cuda::kFlatTensors, tensors,
         [](const SquaredTensor& tensor) { return tensor.n * kFloat; });
}

void RmsNormRopeForward(Stream, const RopeShape& shape, float, float, const void*, const float*,
                        const float*, const int32_t* starts, void*, float*) {
  const int64_t heads = shape.rows * shape.heads;
  if (!cuda::FitsHeadLanes(shape.width)) {
    NormForward(shape.dtype, heads, shape.width, 1, /*residual=*/false);
    return Rope({}, shape, nullptr, starts, false, nullptr);
  }
  if (heads == 0) return;
  Moves(KernelKind::kNormRopeForward,
        heads * (2 * shape.width * SizeOf(shape.dtype) + kFloat) + OfPositions(shape, starts));
}

void RmsNormRopeBackward(Stream, const RopeShape& shape, float, void*, const void*, const float*,
                         const float*, const float*, const int32_t* starts, void*, float* partial,
                         void*) {
  const int64_t heads = shape.rows * shape.heads;
  if (!cuda::FitsHeadLanes(shape.width)) {
    Rope({}, shape, nullptr, starts, true, nullptr);
    return NormBackward(shape.dtype, heads, shape.width, 1, /*residual=*/false, partial != nullptr);
  }
  const int64_t blocks = cuda::CeilDiv(heads, cuda::HeadBlockRows(heads, shape.width));
  if (heads > 0) {
    Moves(KernelKind::kNormRopeBackward, heads * (3 * shape.width * SizeOf(shape.dtype) + kFloat) +
                                             OfPositions(shape, starts) +
                                             blocks * shape.width * kFloat);
  }
  if (partial != nullptr) AddParts(blocks, shape.width, /*accumulate=*/false);
}

void AddInGroups(Stream, absl::Span<const GroupedSum> rows) {
  for (size_t next = 0; next < rows.size(); next += cuda::kListedRows) {
    int64_t values = 0;
    for (const GroupedSum& row : rows.subspan(next, cuda::kListedRows)) values += row.n;
    Moves(KernelKind::kSquareSums, values * static_cast<int64_t>(sizeof(double)));
  }
}

void AllFinite(Stream, DType dtype, int64_t n, const void*, bool*) {
  LaunchRecord::Add({.kind = KernelKind::kFiniteCheck,
                     .launches = n > 0 ? 2 : 1,
                     .bytes = static_cast<double>(n * SizeOf(dtype))});
}

void Hash(Stream, absl::Span<const HashedTensor> tensors, uint64_t*, uint64_t*) {
  for (size_t next = 0; next < tensors.size(); next += cuda::kListedHashes) {
    int64_t bytes = 0;
    for (const HashedTensor& tensor : tensors.subspan(next, cuda::kListedHashes))
      bytes += tensor.bytes;
    LaunchRecord::Add(
        {.kind = KernelKind::kHash, .launches = 2, .bytes = static_cast<double>(bytes)});
  }
}

// A weight, its gradient, and `moments`: all but the gradient are written, too.
void Update(absl::Span<const OptimizerTensor> tensors, int moments) {
  Listed(KernelKind::kOptimizer, cuda::kOptimizerTensors, tensors,
         [&](const OptimizerTensor& tensor) { return tensor.n * kFloat * (3 + 2 * moments); });
}

void AdamW(Stream, const AdamWStep&, absl::Span<const OptimizerTensor> tensors) {
  Update(tensors, 2);
}

void Sgd(Stream, const SgdStep&, absl::Span<const OptimizerTensor> tensors) { Update(tensors, 1); }

void Copy(Stream, void*, const void*, size_t bytes) {
  if (bytes > 0) Moves(KernelKind::kCopy, 2 * static_cast<int64_t>(bytes));
}

}  // namespace
}  // namespace record

namespace {

constexpr Kernels Table(const char* name, decltype(Kernels::make_attention) make_attention) {
  return {
      .device = name,
      .master_weights = MasterWeights::kSplit,
      .head_limits = kGpuHead,
      .make_linear = record::MakeLinear,
      .make_attention = make_attention,
      .attend_cached = record::AttendCached,
      .attend_cached_workspace = cuda::AttendCachedWorkspace,
      .embedding_forward = record::EmbeddingForward,
      .embedding_backward = record::EmbeddingBackward,
      .embedding_backward_workspace = cuda::EmbeddingBackwardWorkspace,
      .layer_norm_forward = record::LayerNormForward,
      .layer_norm_backward = record::LayerNormBackward,
      .layer_norm_backward_workspace = cuda::LayerNormBackwardWorkspace,
      .rms_norm_forward = record::RmsNormForward,
      .rms_norm_backward = record::RmsNormBackward,
      .rms_norm_backward_workspace = cuda::RmsNormBackwardWorkspace,
      .activation_forward = record::Activate,
      .activation_backward = record::ActivateBack,
      .gated_forward = record::GatedForward,
      .gated_backward = record::GatedBackward,
      .rope_table = record::RopeTable,
      .rope = record::Rope,
      .rms_norm_rope_forward = record::RmsNormRopeForward,
      .rms_norm_rope_backward = record::RmsNormRopeBackward,
      .cross_entropy = record::CrossEntropy,
      .cross_entropy_workspace = cuda::CrossEntropyWorkspace,
      .soft_cap = record::SoftCap,
      .dropout = record::Dropout,
      .scale = record::Scale,
      .column_sums = record::ColumnSums,
      .column_sums_workspace = cuda::ColumnSumsWorkspace,
      .accumulate = record::Accumulate,
      .block_squares = record::BlockSquares,
      .add_in_groups = record::AddInGroups,
      .all_finite = record::AllFinite,
      .hash = record::Hash,
      .adamw = record::AdamW,
      .sgd = record::Sgd,
      .copy = record::Copy,
  };
}

}  // namespace

const Kernels& RecordedKernels(CudaAttention attention) {
  static constexpr Kernels kOwn = Table("cuda, recorded", record::MakeAttention);
  static constexpr Kernels kCudnn =
      Table("cuda, attention by cuDNN, recorded", record::MakeCudnnAttention);
  return attention == CudaAttention::kCudnn ? kCudnn : kOwn;
}

}  // namespace sluice
