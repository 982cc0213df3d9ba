#ifndef SLUICE_MODELS_SPEC_HEAD_BLOCKS_H_
#define SLUICE_MODELS_SPEC_HEAD_BLOCKS_H_

#include <cstdint>

namespace sluice {

// How a decoder's head goes over its rows. In one block it keeps the logits from F to W, with three
// products in all. In several it has the logits of one block of rows at a time, in F and once more
// in W: four products.
struct HeadBlocks {
  int64_t rows = 0;   // of a block
  int64_t count = 1;  // blocks; together they may have more rows than the micro-batch

  bool whole() const { return count == 1; }
  int64_t padded_rows() const { return rows * count; }
};

// The most logits that are whole: 320 MiB of fp32. Qwen3-0.6B's (151,936 words) for 512 tokens are,
// since a fourth product in blocks costs a step of its training a twelfth.
inline constexpr int64_t kMostWholeLogits = int64_t{80} << 20;
// The most logits of a block: 128 MiB of fp32. Blocks of Qwen3-0.6B's have some 200 rows, enough for
// products near their peak (models/layers/README.md).
inline constexpr int64_t kMostLogits = int64_t{32} << 20;

// Follows from the shape alone, whatever the type, for layers and plans alike. Requires positive
// numbers.
HeadBlocks HeadBlocksOf(int64_t rows, int64_t vocab);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_HEAD_BLOCKS_H_
