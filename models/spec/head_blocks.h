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

// A kind of device's limits, in logits, whatever their type.
struct HeadLimits {
  int64_t whole = 0;  // the most that are whole
  int64_t block = 0;  // the most of a block otherwise
  // Rows of logits are a multiple of it long.
  int64_t width_unit = 1;
};

// Of processors. Whole: 320 MiB of fp32. Qwen3-0.6B's (151,936 words) for 512 tokens are, since a
// fourth product in blocks costs a step of its training a twelfth. A block: 128 MiB of fp32. Blocks
// of Qwen3-0.6B's have some 200 rows, enough for products near their peak
// (models/layers/README.md).
inline constexpr HeadLimits kProcessorHead{.whole = int64_t{80} << 20, .block = int64_t{32} << 20};
// Of GPUs, which have more memory to the FLOP, and whose products have their peak at some thousand
// rows. Whole: 5 GiB of bf16, as Qwen3-0.6B's (151,936 words) for 16,384 tokens are. On an H200
// GPT-2's (50,304 words) took 5 ms whole, and 7.6 in 16 blocks of 1,025 rows, most of it in adding
// up the blocks' weight gradients. A block: 1 GiB of bf16. Tensor cores multiply matrices at their full speed where all rows begin,
// and end, at multiples of 16 bytes (cuBLAS, "Tensor Core Usage"); 64 columns are a tile's. GPT-2's
// 50,257 words take rows of 50,304.
inline constexpr HeadLimits kGpuHead{
    .whole = int64_t{5} << 29, .block = int64_t{1} << 29, .width_unit = 64};

// Follows from the shape and the kind of device alone, for layers and plans alike. Requires positive
// numbers.
HeadBlocks HeadBlocksOf(int64_t rows, int64_t vocab, const HeadLimits& limits = kProcessorHead);

// The length of a row of logits that may be longer than the vocabulary.
int64_t PaddedWidth(int64_t vocab, const HeadLimits& limits);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_HEAD_BLOCKS_H_
