#include "models/kernels/cpu/linear_bytes.h"

#include <algorithm>

namespace sluice::cpu {
namespace {

// oneDNN's blocks: it copies its operands in multiples of them.
constexpr int64_t kBlock = 64;
constexpr int64_t kPackedRows = 32;
// The shorter side of weights that have a plain copy.
constexpr int64_t kMostNarrow = 64;
constexpr int64_t kAlignment = 64;
// The additional memory that oneDNN asks for.
constexpr int64_t kBookkeeping = 4096;
// oneDNN keeps the copies that one thread uses in the second-level cache.
constexpr int64_t kMostCopied = int64_t{2} << 20;
constexpr int64_t kFloat = sizeof(float);

static_assert(kMostCopied >= kFloat * kTileRows * 2 * kTileColumns);

int64_t RoundUp(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// bf16 weights [k, n] in oneDNN's layout: blocks of 64 columns, padded with zeros.
size_t PackedBytes(const LinearShape& s, int64_t k, int64_t n) {
  if (s.dtype == s.weight_dtype || HasPlainCopy(s)) return 0;
  return static_cast<size_t>(SizeOf(s.dtype) * RoundUp(k, kPackedRows) * RoundUp(n, kBlock));
}

size_t PlainBytes(const LinearShape& s) {
  if (!HasPlainCopy(s)) return 0;
  return static_cast<size_t>(RoundUp(SizeOf(s.dtype) * s.in * s.out, kAlignment));
}

// For [rows, k] * weights [k, n]: a tile of each operand and of the result; of the weights only
// where they are bf16.
int64_t RowWork(const LinearShape& s, int64_t k, int64_t n) {
  const int64_t tile_rows = std::min(RoundUp(s.rows, kBlock), kTileRows);
  const int64_t tile_k = std::min(RoundUp(k, kBlock), kTileColumns);
  const int64_t tile_n = std::min(RoundUp(n, kBlock), kTileColumns);
  const bool widened = s.weight_dtype == DType::kBFloat16 || HasPlainCopy(s);
  const int64_t weights = widened ? tile_k * tile_n : 0;
  return kFloat * (tile_rows * (tile_k + tile_n) + weights) + kBookkeeping;
}

// For a gradient [in, out], which is summed over rows: both operands and the result, but no more
// than fits into a cache.
int64_t GradientWork(int64_t rows, int64_t in, int64_t out) {
  const int64_t m = RoundUp(in, kBlock), k = RoundUp(rows, kBlock), n = RoundUp(out, kBlock);
  return std::min(kFloat * (m * k + k * n + m * n), kMostCopied) + kBookkeeping;
}

}  // namespace

bool HasPlainCopy(const LinearShape& shape) {
  return shape.dtype != shape.weight_dtype && std::min(shape.in, shape.out) <= kMostNarrow;
}

LinearBytes BytesOf(const LinearShape& s, int threads) {
  const auto of_all = [threads](int64_t bytes) { return static_cast<size_t>(threads * bytes); };
  return {.forward_copy = PlainBytes(s) + PackedBytes(s, s.in, s.out),
          .input_grad_copy = PackedBytes(s, s.out, s.in),
          .forward_work = of_all(RowWork(s, s.in, s.out)),
          .input_grad_work = of_all(RowWork(s, s.out, s.in)),
          .weight_grad_work = of_all(GradientWork(s.rows, s.in, s.out))};
}

}  // namespace sluice::cpu
