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

// A group's work areas, cut from the workspace in this order. Scores are products of `Score`, and
// weights times values of `Unit`.
template <class Unit, class Score>
struct Panels {
  Panels(const GroupShape& shape, float* workspace)
      : queries(reinterpret_cast<Score*>(workspace)),
        keys(queries + UnitsOf<Score>(shape.panel_floats())),
        values(reinterpret_cast<Unit*>(keys + UnitsOf<Score>(shape.panel_floats()))),
        scores(reinterpret_cast<float*>(values + UnitsOf<Unit>(shape.panel_floats()))),
        sums(scores + kQueryTile * shape.score_columns()) {}
  Score *queries, *keys;
  Unit* values;
  float* scores;  // [kQueryTile, score_columns]; then the weights, in units at their beginning
  float* sums;    // [kQueryTile, padded_width]
};

// The weights of a row, as its product with the values needs them.
template <class T, class Unit>
void FinishWeights(size_t n, float* row) {
  if constexpr (kTerms<Unit> == 2) {
    PairColumns(n, row, reinterpret_cast<Unit*>(row));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    RoundAll(n, row);
  }
}

// Weights of the kQueryTile rows from `row` for the keys of the panels from `base` to `end`, and
// each row's softmax.
template <class T, class Unit, class Score>
void WeighTile(const GroupShape& shape, const int32_t* starts, size_t row, size_t base,
               const Panels<Unit, Score>& at, RowSoftmax* softmax) {
  const size_t columns = UnitsOf<Score>(shape.padded_width());
  const size_t end = row + kQueryTile;
  const size_t panels = RoundUp(end - base, kPanel);
  RowTimesPanels<kByTiles<Unit, Score>>(shape.width, at.queries + row * columns, columns, at.keys,
                                        base, end, base, at.scores, shape.score_columns());
  for (size_t r = 0; r < kQueryTile; ++r) {
    float* const scores = at.scores + r * shape.score_columns();
    const size_t seen = shape.FirstKey(starts, row + r) - base;
    const size_t own = row + r + 1 - base;
    if (shape.soft_cap != 0) CapScores(own - seen, shape.scale, shape.soft_cap, scores + seen);
    softmax[r] = Exponentials(own - seen, shape.soft_cap != 0 ? 1.0f : shape.scale, scores + seen);
    std::fill(scores, scores + seen, 0.0f);
    std::fill(scores + own, scores + panels, 0.0f);
    FinishWeights<T, Unit>(panels, scores);
  }
}

// One query head; keys and values are packed.
template <class T, class Unit, class Score>
void AttendHead(const GroupShape& shape, const int32_t* starts, const T* q,
                const Panels<Unit, Score>& at, T* out, float* lse) {
  const size_t columns = shape.padded_width();
  PackLeft<Score>(shape, q, shape.q_stride, at.queries);
  for (size_t row = 0; row < shape.seq; row += kQueryTile) {
    const size_t first =
        RoundDown(shape.FirstKey(starts, row), kTerms<Unit>);  // that the tile sees
    const size_t base = RoundDown(first, kPanel);
    RowSoftmax softmax[kQueryTile];
    WeighTile<T>(shape, starts, row, base, at, softmax);
    const auto* const weights = reinterpret_cast<const Unit*>(at.scores);
    RowTimesRows<false, Unit>((row + kQueryTile - first) / kTerms<Unit>,
                              {weights + (first - base) / kTerms<Unit>, shape.score_columns(), 1},
                              at.values + first / kTerms<Unit> * columns, columns, columns, at.sums,
                              columns);
    for (size_t r = 0; r < std::min(kQueryTile, shape.seq - row); ++r) {
      lse[row + r] = softmax[r].lse;
      UnpackRows(shape, 1, at.sums + r * columns, 1.0f / softmax[r].sum,
                 out + (row + r) * shape.out_stride, shape.out_stride);
    }
  }
}

template <class T, class Unit, class Score>
void AttendGroupOf(const GroupShape& shape, const GroupForward& group, float* workspace) {
  const Panels<Unit, Score> at(shape, workspace);
  PackTransposed<Score>(shape, static_cast<const T*>(group.k), shape.kv_stride, at.keys);
  PackRight<Unit>(shape, static_cast<const T*>(group.v), shape.kv_stride, at.values);
  for (size_t head = 0; head < shape.heads; ++head) {
    AttendHead(shape, group.starts, static_cast<const T*>(group.q) + head * shape.width, at,
               static_cast<T*>(group.out) + head * shape.width, group.lse + head * shape.seq);
  }
}

}  // namespace

void AttendGroup(const GroupShape& shape, const GroupForward& group, float* workspace) {
  const bool bf16 = shape.dtype == DType::kBFloat16;
#if HWY_TARGET == HWY_AVX3
  if (bf16 && shape.products == BFloat16Products::kTiles) {
    const ScoreTiles tiles(shape.width);
    return AttendGroupOf<BFloat16, float, Pair>(shape, group, workspace);
  }
  if (bf16 && shape.products == BFloat16Products::kPairs) {
    return AttendGroupOf<BFloat16, Pair, Pair>(shape, group, workspace);
  }
#endif
  bf16 ? AttendGroupOf<BFloat16, float, float>(shape, group, workspace)
       : AttendGroupOf<float, float, float>(shape, group, workspace);
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
