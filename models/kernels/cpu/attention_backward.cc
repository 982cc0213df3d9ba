#include <algorithm>
#include <cmath>

#include "models/kernels/cpu/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/kernels/cpu/attention_backward.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "models/kernels/cpu/attention_tile-inl.h"
#include "models/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {
namespace {

// The weights and the gradients of the scores of kQueryBlock rows; columns are keys.
template <class Unit>
class BlockScores {
 public:
  BlockScores(const GroupShape& shape, float* workspace)
      : stride_(shape.score_columns()), p_(workspace), ds_(p_ + kRows * stride_) {
    weights_ = reinterpret_cast<Unit*>(kPairs ? ds_ + kRows * stride_ : p_);
    gradients_ = kPairs ? weights_ + kQueryBlock / 2 * stride_ : reinterpret_cast<Unit*>(ds_);
    gradient_rows_ = kPairs ? gradients_ + kQueryBlock / 2 * stride_ : gradients_;
  }

  // A row in fp32, to be filled; of pairs only the rows of one tile are kept so.
  float* p(size_t row) const { return p_ + row % kRows * stride_; }
  float* ds(size_t row) const { return ds_ + row % kRows * stride_; }

  // The kQueryTile rows from `row`, once filled, become factors of products. Columns from `first` to
  // `end` are whole panels.
  template <class T>
  void FinishTile(size_t row, size_t first, size_t end) const {
    for (size_t r = row; r < row + kQueryTile; r += kPairs ? 2 : 1) {
      if constexpr (kPairs) {
        const size_t at = r / 2 * stride_ + first;
        PairRows(end - first, p(r) + first, p(r + 1) + first, weights_ + at);
        PairRows(end - first, ds(r) + first, ds(r + 1) + first, gradients_ + at);
        for (const size_t each : {r, r + 1}) {
          PairColumns(end - first, ds(each) + first,
                      gradient_rows_ + (each * stride_ + first) / kTerms<Unit>);
        }
      } else if constexpr (std::is_same_v<T, BFloat16>) {
        RoundAll(end - first, p(r) + first);
        RoundAll(end - first, ds(r) + first);
      }
    }
  }

  // As left factors from a row and a key on: a row for each key, or one for each row.
  Strided<Unit> WeightsOfKeys(size_t row, size_t key) const {
    return {weights_ + row / kTerms<Unit> * stride_ + key, 1, stride_};
  }
  Strided<Unit> GradientsOfKeys(size_t row, size_t key) const {
    return {gradients_ + row / kTerms<Unit> * stride_ + key, 1, stride_};
  }
  Strided<Unit> GradientsOfRows(size_t row, size_t key) const {
    return {gradient_rows_ + (row * stride_ + key) / kTerms<Unit>, stride_ / kTerms<Unit>, 1};
  }

 private:
  static constexpr bool kPairs = kTerms<Unit> == 2;
  static constexpr size_t kRows = kPairs ? kQueryTile : kQueryBlock;

  size_t stride_;
  float *p_, *ds_;
  Unit *weights_, *gradients_, *gradient_rows_;
};

// A group's work areas, cut from the workspace; rows of padded_width. Scores and their gradients
// are products of `Score`, and sums over keys or rows of `Unit`.
template <class Unit, class Score>
struct Panels {
  Panels(const GroupShape& shape, float* workspace)
      : dk(workspace),
        dv(dk + shape.panel_floats()),
        dq(dv + shape.panel_floats()),
        scores(shape, dq + kQueryTile * shape.padded_width()) {
    auto* score = reinterpret_cast<Score*>(dq + kQueryTile * shape.padded_width() +
                                           2 * kQueryBlock * shape.score_columns());
    for (Score** matrix : {&q, &dout, &k_transposed, &v_transposed}) {
      *matrix = score;
      score += UnitsOf<Score>(shape.panel_floats());
    }
    auto* next = reinterpret_cast<Unit*>(score);
    for (Unit** matrix : {&k, &q_rows, &dout_rows}) {
      *matrix = next;
      next += UnitsOf<Unit>(shape.panel_floats());
    }
    if constexpr (kOneServesAsBoth) {
      q_rows = q;
      dout_rows = dout;
    }
  }
  static constexpr bool kOneServesAsBoth = kTerms<Unit> == 1 && std::is_same_v<Unit, Score>;

  float *dk, *dv;
  float* dq;  // [kQueryTile, padded_width]
  BlockScores<Unit> scores;
  Score *q, *dout;                     // left factors
  Score *k_transposed, *v_transposed;  // right factors
  Unit *k, *q_rows, *dout_rows;        // right factors
};

// One query head's rows.
template <class T>
struct Head {
  const int32_t* starts;
  const T* q;
  const T* out;
  const float* lse;
  const T* dout;
  T* dq;
};

// kQueryBlock rows from `row`, and the keys that they see.
struct Block {
  Block(const GroupShape& shape, const int32_t* starts, size_t first_row)
      : row(first_row),
        end(first_row + kQueryBlock),
        first_key(RoundDown(shape.FirstKey(starts, first_row), kQueryTile)),
        base(RoundDown(first_key, kRowPadding)) {}
  size_t first_panel() const { return RoundDown(first_key, kPanel); }
  size_t end_panel() const { return RoundUp(end, kPanel); }

  size_t row, end;   // keys end with the rows
  size_t first_key;  // of tiles of kQueryTile keys
  size_t base;       // the key of column 0 of the scores
};

template <class T>
float Dot(size_t n, const T* a, const T* b) {
  const DF d;
  VF sum = hn::Zero(d);
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    sum = hn::MulAdd(Load(d, a + i, part), Load(d, b + i, part), sum);
  });
  return SumAll(sum);
}

// scores -> p = e^(scale * score - lse), dp -> ds = p (dp - delta) for `n` keys. Where scores are
// capped, `scale` is 1 and ds is that of the scores before: times 1 - tanh^2 = 1 - (score / cap)^2.
template <bool kCapped>
void SoftmaxGradient(size_t n, float scale, float lse, float delta, float cap, float* p,
                     float* ds) {
  const DF d;
  const VF factor = hn::Set(d, scale);
  const VF offset = hn::Set(d, lse);
  const VF deltas = hn::Set(d, delta);
  const VF inverse = hn::Set(d, kCapped ? 1.0f / cap : 0.0f);
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    const VF score = Load(d, p + i, part);
    const VF weight = ExpOf(hn::MulSub(score, factor, offset));
    VF gradient = hn::Mul(weight, hn::Sub(Load(d, ds + i, part), deltas));
    if constexpr (kCapped) {
      const VF tanh = hn::Mul(score, inverse);
      gradient = hn::Mul(gradient, hn::NegMulAdd(tanh, tanh, hn::Set(d, 1.0f)));
    }
    Store(weight, d, p + i, part);
    Store(gradient, d, ds + i, part);
  });
}

// Rows `row` of p and ds, which have the products of queries and keys and of dout and values, with
// those of keys that the row does not see set to 0; indexed by key.
template <class T>
void FinishRow(const GroupShape& shape, const Head<T>& head, const Block& block, size_t row,
               float* p, float* ds) {
  const bool real = row < shape.seq;
  const size_t first = real ? shape.FirstKey(head.starts, row) : block.end_panel();
  const size_t end = real ? row + 1 : block.end_panel();
  if (real) {
    const size_t offset = row * shape.out_stride;
    const size_t n = end - first;
    const float delta = Dot(shape.width, head.dout + offset, head.out + offset);
    const float cap = shape.soft_cap;
    if (cap != 0) {
      CapScores(n, shape.scale, cap, p + first);
      SoftmaxGradient<true>(n, 1.0f, head.lse[row], delta, cap, p + first, ds + first);
    } else {
      SoftmaxGradient<false>(n, shape.scale, head.lse[row], delta, cap, p + first, ds + first);
    }
  }
  for (float* const values : {p, ds}) {
    std::fill(values + block.first_panel(), values + first, 0.0f);
    std::fill(values + end, values + block.end_panel(), 0.0f);
  }
}

// Fills the scores of a block of rows, for the keys from its first_panel to its end_panel.
template <class T, class Unit, class Score>
void ScoreBlock(const GroupShape& shape, const Head<T>& head, const Block& block,
                const Panels<Unit, Score>& at) {
  constexpr bool kTiles = kByTiles<Unit, Score>;
  const size_t columns = UnitsOf<Score>(shape.padded_width());
  const size_t stride = shape.score_columns();
  for (size_t t = block.row; t < block.end; t += kQueryTile) {
    float* const p = at.scores.p(t - block.row);
    float* const ds = at.scores.ds(t - block.row);
    const size_t first = shape.FirstKey(head.starts, t);
    const size_t seen = t + kQueryTile;
    RowTimesPanels<kTiles>(shape.width, at.q + t * columns, columns, at.k_transposed, first, seen,
                           block.base, p, stride);
    RowTimesPanels<kTiles>(shape.width, at.dout + t * columns, columns, at.v_transposed, first,
                           seen, block.base, ds, stride);
    for (size_t r = 0; r < kQueryTile; ++r) {
      FinishRow(shape, head, block, t + r, p + r * stride - block.base,
                ds + r * stride - block.base);
    }
    at.scores.template FinishTile<T>(t - block.row, block.first_panel() - block.base,
                                     block.end_panel() - block.base);
  }
}

// sums[keys, :] += weights[block, keys]^T * rows[block, :] for the keys that the block of queries
// sees. `weights` gives those of a row and a key on, counted from the block's.
template <class Unit, class Weights>
void AddTransposedProduct(const GroupShape& shape, const int32_t* starts, const Block& block,
                          const Weights& weights, const Unit* rows, float* sums) {
  const size_t columns = shape.padded_width();
  size_t last = block.row;  // the first query that sees none of the keys any more
  for (size_t key = block.first_key; key < block.end; key += kQueryTile) {
    while (last < block.end && shape.FirstKey(starts, last) < key + kQueryTile) ++last;
    const size_t first = std::max(key, block.row);  // queries before the key do not see it
    if (first >= last) continue;
    RowTimesRows<true, Unit>(
        UnitsOf<Unit>(last - first), weights(first - block.row, key - block.base),
        rows + first / kTerms<Unit> * columns, columns, columns, sums + key * columns, columns);
  }
}

// One query head; keys and values are packed.
template <class T, class Unit, class Score>
void AddHead(const GroupShape& shape, const Head<T>& head, const Panels<Unit, Score>& at) {
  const size_t columns = shape.padded_width();
  PackLeft<Score>(shape, head.q, shape.q_stride, at.q);
  PackLeft<Score>(shape, head.dout, shape.out_stride, at.dout);
  if constexpr (!Panels<Unit, Score>::kOneServesAsBoth) {
    PackRight<Unit>(shape, head.q, shape.q_stride, at.q_rows);
    PackRight<Unit>(shape, head.dout, shape.out_stride, at.dout_rows);
  }
  const auto weights = [&](size_t row, size_t key) { return at.scores.WeightsOfKeys(row, key); };
  const auto gradients = [&](size_t row, size_t key) {
    return at.scores.GradientsOfKeys(row, key);
  };
  for (size_t row = 0; row < shape.seq; row += kQueryBlock) {
    const Block block(shape, head.starts, row);
    ScoreBlock(shape, head, block, at);
    AddTransposedProduct(shape, head.starts, block, weights, at.dout_rows, at.dv);
    AddTransposedProduct(shape, head.starts, block, gradients, at.q_rows, at.dk);
    for (size_t t = row; t < std::min(block.end, shape.seq); t += kQueryTile) {
      const size_t first = RoundDown(shape.FirstKey(head.starts, t), kTerms<Unit>);
      RowTimesRows<false, Unit>((t + kQueryTile - first) / kTerms<Unit>,
                                at.scores.GradientsOfRows(t - row, first - block.base),
                                at.k + first / kTerms<Unit> * columns, columns, columns, at.dq,
                                columns);
      UnpackRows(shape, std::min(kQueryTile, shape.seq - t), at.dq, shape.scale,
                 head.dq + t * shape.q_stride, shape.q_stride);
    }
  }
}

template <class T, class Unit, class Score>
void AttendGroupBackwardOf(const GroupShape& shape, const GroupBackward& group, float* workspace) {
  const Panels<Unit, Score> at(shape, workspace);
  const auto* const k = static_cast<const T*>(group.k);
  PackRight<Unit>(shape, k, shape.kv_stride, at.k);
  PackTransposed<Score>(shape, k, shape.kv_stride, at.k_transposed);
  PackTransposed<Score>(shape, static_cast<const T*>(group.v), shape.kv_stride, at.v_transposed);
  std::fill(at.dk, at.dk + 2 * shape.panel_floats(), 0.0f);  // dv lies behind it
  for (size_t h = 0; h < shape.heads; ++h) {
    const size_t offset = h * shape.width;
    const Head<T> head = {.starts = group.starts,
                          .q = static_cast<const T*>(group.q) + offset,
                          .out = static_cast<const T*>(group.out) + offset,
                          .lse = group.lse + h * shape.seq,
                          .dout = static_cast<const T*>(group.dout) + offset,
                          .dq = static_cast<T*>(group.dq) + offset};
    AddHead(shape, head, at);
  }
  UnpackRows(shape, shape.seq, at.dk, shape.scale, static_cast<T*>(group.dk), shape.kv_stride);
  UnpackRows(shape, shape.seq, at.dv, 1.0f, static_cast<T*>(group.dv), shape.kv_stride);
}

}  // namespace

void AttendGroupBackward(const GroupShape& shape, const GroupBackward& group, float* workspace) {
  const bool bf16 = shape.dtype == DType::kBFloat16;
#if HWY_TARGET == HWY_AVX3
  if (bf16 && shape.products == BFloat16Products::kTiles) {
    const ScoreTiles tiles(shape.width);
    return AttendGroupBackwardOf<BFloat16, float, Pair>(shape, group, workspace);
  }
  if (bf16 && shape.products == BFloat16Products::kPairs) {
    return AttendGroupBackwardOf<BFloat16, Pair, Pair>(shape, group, workspace);
  }
#endif
  bf16 ? AttendGroupBackwardOf<BFloat16, float, float>(shape, group, workspace)
       : AttendGroupBackwardOf<float, float, float>(shape, group, workspace);
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

HWY_EXPORT(AttendGroupBackward);

void AttendGroupBackward(const GroupShape& shape, const GroupBackward& group, float* workspace) {
  HWY_DYNAMIC_DISPATCH(AttendGroupBackward)(shape, group, workspace);
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
