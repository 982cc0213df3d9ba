#include "models/kernels/cpu/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/kernels/cpu/attention_forward.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "models/kernels/cpu/attention_tile-inl.h"
#include "models/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {
namespace {

// A group's work areas, cut from the workspace in this order; all fp32.
struct Panels {
  Panels(const GroupShape& shape, float* workspace)
      : queries(workspace),
        keys(queries + shape.panel_floats()),
        values(keys + shape.panel_floats()),
        scores(values + shape.panel_floats()),
        sums(scores + kQueryTile * shape.score_columns()) {}
  float *queries, *keys, *values;
  float* scores;  // [kQueryTile, score_columns]
  float* sums;    // [kQueryTile, padded_width]
};

// Weights of the kQueryTile rows from `row` for the keys from `first` to `end`, and each row's
// softmax.
void WeighTile(const GroupShape& shape, const int32_t* starts, size_t row, size_t first,
               const Panels& at, RowSoftmax* softmax) {
  const size_t columns = shape.padded_width();
  const size_t end = row + kQueryTile;
  const size_t base = RoundDown(first, kPanel);
  RowTimesPanels(shape.width, at.queries + row * columns, columns, at.keys, first, end, base,
                 at.scores, shape.score_columns());
  for (size_t r = 0; r < kQueryTile; ++r) {
    float* const scores = at.scores + r * shape.score_columns() - base;
    const size_t seen = shape.FirstKey(starts, row + r);
    const size_t count = row + r + 1 - seen;
    if (shape.soft_cap != 0) CapScores(count, shape.soft_cap, scores + seen);
    softmax[r] = Exponentials(count, scores + seen);
    std::fill(scores + first, scores + seen, 0.0f);
    std::fill(scores + row + r + 1, scores + end, 0.0f);
  }
}

// One query head; keys and values are packed.
template <class T>
void AttendHead(const GroupShape& shape, const int32_t* starts, const T* q, const Panels& at,
                T* out, float* lse) {
  const size_t columns = shape.padded_width();
  PackRows(shape, q, shape.q_stride, shape.scale, at.queries);
  for (size_t row = 0; row < shape.seq; row += kQueryTile) {
    const size_t first = shape.FirstKey(starts, row);  // that the tile sees
    RowSoftmax softmax[kQueryTile];
    WeighTile(shape, starts, row, first, at, softmax);
    const float* const weights = at.scores + first % kPanel;
    RowTimesRows<false>(row + kQueryTile - first, {weights, shape.score_columns(), 1},
                        at.values + first * columns, columns, columns, at.sums, columns);
    for (size_t r = 0; r < std::min(kQueryTile, shape.seq - row); ++r) {
      lse[row + r] = softmax[r].lse;
      UnpackRows(shape, 1, at.sums + r * columns, 1.0f / softmax[r].sum,
                 out + (row + r) * shape.out_stride, shape.out_stride);
    }
  }
}

template <class T>
void AttendGroupOf(const GroupShape& shape, const GroupForward& group, float* workspace) {
  const Panels at(shape, workspace);
  PackTransposed(shape, static_cast<const T*>(group.k), shape.kv_stride, at.keys);
  PackRows(shape, static_cast<const T*>(group.v), shape.kv_stride, 1.0f, at.values);
  for (size_t head = 0; head < shape.heads; ++head) {
    AttendHead(shape, group.starts, static_cast<const T*>(group.q) + head * shape.width, at,
               static_cast<T*>(group.out) + head * shape.width, group.lse + head * shape.seq);
  }
}

}  // namespace

void AttendGroup(const GroupShape& shape, const GroupForward& group, float* workspace) {
  shape.dtype == DType::kBFloat16 ? AttendGroupOf<BFloat16>(shape, group, workspace)
                                  : AttendGroupOf<float>(shape, group, workspace);
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

HWY_EXPORT(AttendGroup);

void AttendGroup(const GroupShape& shape, const GroupForward& group, float* workspace) {
  HWY_DYNAMIC_DISPATCH(AttendGroup)(shape, group, workspace);
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
