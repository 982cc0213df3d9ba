#ifndef SLUICE_MODELS_KERNELS_CPU_ATTENTION_H_
#define SLUICE_MODELS_KERNELS_CPU_ATTENTION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "models/kernels/kernels.h"
#include "models/spec/dtype.h"

// Causal attention for one key/value head of one sequence and the query heads that read it. Rows
// are first copied from their strided places into panels, padded with zeros to whole tiles: keys
// and values once for all query heads. Then every product is a run of register tiles that
// touches only the keys that a row may see (Dao et al. 2022, FlashAttention, without its second
// level of blocking: a head's panels fit in the second-level cache). Scores exist for one tile
// (forward) or one block (backward) of query rows at a time.
//
// A key that a row does not see has weight 0 there or is left out, which gives the same bits: so a
// row's result does not depend on how its keys lie in tiles, and a document's is that of a sequence
// of its own.
//
// In bf16 the weights and the gradients of scores are rounded to bf16 where products take them, as
// in FlashAttention; all sums are fp32.
namespace sluice::cpu {

constexpr size_t kQueryTile = 12;   // rows of a register tile
constexpr size_t kPanel = 32;       // columns of a panel of transposed keys or values
constexpr size_t kQueryBlock = 48;  // rows of scores kept at once by the backward pass
constexpr size_t kRowPadding = 96;  // a multiple of the three above

constexpr size_t RoundUp(size_t n, size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

constexpr size_t RoundDown(size_t n, size_t multiple) { return n / multiple * multiple; }

// How bf16 values are multiplied.
enum class BFloat16Products : uint8_t {
  kSingle,  // as fp32 values
  // Pairs of them: the same bits, faster on some processors (MultipliesBFloat16 of matmul.h).
  kPairs,
  // Rows and keys by AMX tiles, the rest as fp32 values. A tile's sum of 32 products is added as a
  // whole (seen on a Xeon: the sum of the even ones plus that of the odd ones), which gives other
  // bits. A sum along a head's width always begins with a tile. Sums over keys are not made by
  // tiles: where these begin would depend on where in a window a document lies.
  kTiles,
};

struct GroupShape {
  size_t seq = 0;
  size_t heads = 0;       // query heads of the group
  size_t width = 0;       // elements of one head
  size_t q_stride = 0;    // elements between rows of q and dq
  size_t kv_stride = 0;   // of k, v and their gradients
  size_t out_stride = 0;  // of out and dout
  size_t window = 0;      // a row sees so many keys; 0: all before it
  float scale = 0;        // of the scores
  float soft_cap = 0;     // 0: none
  DType dtype = DType::kFloat32;
  BFloat16Products products = BFloat16Products::kSingle;  // the processor has them

  size_t padded_seq() const { return RoundUp(seq, kRowPadding); }
  size_t padded_width() const { return RoundUp(width, kPanel); }
  size_t panel_floats() const { return padded_seq() * padded_width(); }
  // Room for the scores of a row: with those of a block of rows they begin at a multiple of
  // kRowPadding and end with a whole panel.
  size_t score_columns() const {
    const size_t span = RoundUp(window + kQueryBlock + kPanel + kRowPadding, kRowPadding);
    return window == 0 || span > padded_seq() ? padded_seq() : span;
  }
  size_t forward_floats() const {
    return 3 * panel_floats() + kQueryTile * (score_columns() + padded_width());
  }
  size_t backward_floats() const {
    return 7 * panel_floats() + 2 * kQueryBlock * score_columns() + kQueryTile * padded_width();
  }
  // The first key that a row sees. Never less than the row before's; rows past the end see what the
  // last one does.
  size_t FirstKey(const int32_t* starts, size_t row) const {
    const size_t real = std::min(row, seq - 1);
    const size_t in_window = window != 0 && real >= window ? real - window + 1 : 0;
    return starts == nullptr ? in_window : std::max(in_window, static_cast<size_t>(starts[real]));
  }
};

// The group of one key/value head of `shape`.
inline GroupShape GroupOf(const AttentionShape& shape, BFloat16Products products) {
  return {.seq = static_cast<size_t>(shape.seq),
          .heads = static_cast<size_t>(shape.heads / shape.kv_heads),
          .width = static_cast<size_t>(shape.width),
          .q_stride = static_cast<size_t>(shape.q_stride),
          .kv_stride = static_cast<size_t>(shape.kv_stride),
          .out_stride = static_cast<size_t>(shape.heads * shape.width),
          .window = shape.window < shape.seq ? static_cast<size_t>(shape.window) : 0,
          .scale = ScoreScale(shape),
          .soft_cap = shape.soft_cap,
          .dtype = shape.dtype,
          .products = products};
}

// How many of `threads` threads attention uses: no more than there are groups.
inline int AttentionThreads(const AttentionShape& shape, int threads) {
  return static_cast<int>(std::min<int64_t>(threads, shape.batch * shape.kv_heads));
}

// A group's rows in the caller's tensors, from the sequence's first on; of q, out and their
// gradients those of the first query head: the next one's lie `width` elements further, and its lse
// `seq`. `starts` may be null, as in kernels.h.
struct GroupForward {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const int32_t* starts = nullptr;
  void* out = nullptr;
  float* lse = nullptr;
};

struct GroupBackward {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const int32_t* starts = nullptr;
  const void* out = nullptr;
  const float* lse = nullptr;
  const void* dout = nullptr;
  void* dq = nullptr;
  void* dk = nullptr;  // and dv: summed in fp32 over the query heads, in their order
  void* dv = nullptr;
};

void AttendGroup(const GroupShape& shape, const GroupForward& group, float* workspace);
void AttendGroupBackward(const GroupShape& shape, const GroupBackward& group, float* workspace);

}  // namespace sluice::cpu

#endif  // SLUICE_MODELS_KERNELS_CPU_ATTENTION_H_
