#include "models/spec/head_blocks.h"

#include <algorithm>

namespace sluice {
namespace {

// Products are fastest on multiples of it.
constexpr int64_t kRowUnit = 16;

int64_t CeilDiv(int64_t n, int64_t by) { return (n + by - 1) / by; }

}  // namespace

HeadBlocks HeadBlocksOf(int64_t rows, int64_t vocab, const HeadLimits& limits) {
  const int64_t most = std::max(kRowUnit, limits.block / vocab / kRowUnit * kRowUnit);
  if (rows <= most || rows <= limits.whole / vocab) return {.rows = rows, .count = 1};
  // As even as can be, so that the last block pads little.
  const int64_t even = CeilDiv(rows, CeilDiv(rows, most));
  const int64_t block = CeilDiv(even, kRowUnit) * kRowUnit;
  return {.rows = block, .count = CeilDiv(rows, block)};
}

int64_t PaddedWidth(int64_t vocab, const HeadLimits& limits) {
  return CeilDiv(vocab, limits.width_unit) * limits.width_unit;
}

}  // namespace sluice
