#ifndef SLUICE_MODELS_KERNELS_CPU_ATTENTION_H_
#define SLUICE_MODELS_KERNELS_CPU_ATTENTION_H_

#include <cstddef>

#include "models/spec/dtype.h"

// Causal attention for one head of one sequence. A head's queries, keys and values are first copied
// from their strided rows into fp32 panels, padded with zeros to whole tiles; then every product is
// a run of register tiles that touches only the keys a row may see (Dao et al. 2022,
// FlashAttention, without its second level of blocking: a head's panels fit in the second-level
// cache). Scores exist for one tile (forward) or one block (backward) of query rows at a time.
namespace sluice::cpu {

constexpr size_t kQueryTile = 12;   // rows of a register tile
constexpr size_t kPanel = 32;       // columns of a panel of transposed keys or values
constexpr size_t kQueryBlock = 48;  // rows of scores kept at once by the backward pass
constexpr size_t kRowPadding = 96;  // a multiple of the three above

constexpr size_t RoundUp(size_t n, size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

struct HeadShape {
  size_t seq = 0;
  size_t width = 0;   // elements of one head
  size_t stride = 0;  // elements between rows of q, k, v and their gradients
  size_t out_stride = 0;
  DType dtype = DType::kFloat32;

  size_t padded_seq() const { return RoundUp(seq, kRowPadding); }
  size_t padded_width() const { return RoundUp(width, kPanel); }
  size_t panel_floats() const { return padded_seq() * padded_width(); }
  size_t forward_floats() const {
    return 3 * panel_floats() + kQueryTile * (padded_seq() + padded_width());
  }
  size_t backward_floats() const {
    return 7 * panel_floats() + 2 * kQueryBlock * padded_seq() + kQueryTile * padded_width();
  }
};

// One head's rows in the caller's tensors.
struct HeadForward {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;
  float* lse = nullptr;
};

struct HeadBackward {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* out = nullptr;
  const float* lse = nullptr;
  const void* dout = nullptr;
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
};

void AttendHead(const HeadShape& shape, const HeadForward& head, float* workspace);
void AttendHeadBackward(const HeadShape& shape, const HeadBackward& head, float* workspace);

}  // namespace sluice::cpu

#endif  // SLUICE_MODELS_KERNELS_CPU_ATTENTION_H_
