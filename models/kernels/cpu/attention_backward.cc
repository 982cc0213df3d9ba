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

// A group's work areas, cut from the workspace in this order. All fp32, rows of
// shape.padded_width().
struct Panels {
  Panels(const GroupShape& shape, float* workspace) {
    float** const matrices[] = {&q, &k, &k_transposed, &v_transposed, &dout, &dk, &dv};
    for (float** matrix : matrices) {
      *matrix = workspace;
      workspace += shape.panel_floats();
    }
    p = workspace;
    ds = p + kQueryBlock * shape.score_columns();
    dq = ds + kQueryBlock * shape.score_columns();
  }
  float *q, *k, *k_transposed, *v_transposed, *dout, *dk, *dv;
  float *p, *ds;  // [kQueryBlock, score_columns]
  float* dq;      // [kQueryTile, padded_width]
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
  size_t row, end;   // keys end with the rows
  size_t first_key;  // of tiles of kQueryTile keys
  size_t base;       // the key of column 0 of p and ds
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

// scores -> p = e^(score - lse), dp -> ds = p (dp - delta) for `n` keys. Where scores are capped,
// ds is that of the scores before: times 1 - tanh^2 = 1 - (score / cap)^2.
template <bool kCapped>
void SoftmaxGradient(size_t n, float lse, float delta, float cap, float* p, float* ds) {
  const DF d;
  const VF offset = hn::Set(d, lse);
  const VF deltas = hn::Set(d, delta);
  const VF inverse = hn::Set(d, kCapped ? 1.0f / cap : 0.0f);
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    const VF score = Load(d, p + i, part);
    const VF weight = ExpOf(hn::Sub(score, offset));
    VF gradient = hn::Mul(weight, hn::Sub(Load(d, ds + i, part), deltas));
    if constexpr (kCapped) {
      const VF tanh = hn::Mul(score, inverse);
      gradient = hn::Mul(gradient, hn::NegMulAdd(tanh, tanh, hn::Set(d, 1.0f)));
    }
    Store(weight, d, p + i, part);
    Store(gradient, d, ds + i, part);
  });
}

// Rows `row` of p and ds, which have scores and the products of dout and values, with those of keys
// that the row does not see set to 0; indexed by key.
template <class T>
void FinishRow(const GroupShape& shape, const Head<T>& head, const Block& block, size_t row,
               float* p, float* ds) {
  const bool real = row < shape.seq;
  const size_t first = real ? shape.FirstKey(head.starts, row) : block.end;
  const size_t end = real ? row + 1 : block.end;
  if (real) {
    const size_t offset = row * shape.out_stride;
    const float delta = Dot(shape.width, head.dout + offset, head.out + offset);
    const float cap = shape.soft_cap;
    if (cap != 0) {
      CapScores(end - first, cap, p + first);
      SoftmaxGradient<true>(end - first, head.lse[row], delta, cap, p + first, ds + first);
    } else {
      SoftmaxGradient<false>(end - first, head.lse[row], delta, cap, p + first, ds + first);
    }
  }
  for (float* const values : {p, ds}) {
    std::fill(values + block.first_key, values + first, 0.0f);
    std::fill(values + end, values + block.end, 0.0f);
  }
}

// Fills p and ds for a block of rows, for the keys from its first_key to its end.
template <class T>
void ScoreBlock(const GroupShape& shape, const Head<T>& head, const Block& block,
                const Panels& at) {
  const size_t columns = shape.padded_width();
  const size_t stride = shape.score_columns();
  for (size_t t = block.row; t < block.end; t += kQueryTile) {
    float* const p = at.p + (t - block.row) * stride;
    float* const ds = at.ds + (t - block.row) * stride;
    const size_t first = shape.FirstKey(head.starts, t);
    const size_t seen = t + kQueryTile;
    RowTimesPanels(shape.width, at.q + t * columns, columns, at.k_transposed, first, seen,
                   block.base, p, stride);
    RowTimesPanels(shape.width, at.dout + t * columns, columns, at.v_transposed, first, seen,
                   block.base, ds, stride);
    for (size_t r = 0; r < kQueryTile; ++r) {
      FinishRow(shape, head, block, t + r, p + r * stride - block.base,
                ds + r * stride - block.base);
    }
  }
}

// sums[keys, :] += weights[block, keys]^T * rows[block, :] for the keys that the block of queries
// sees.
void AddTransposedProduct(const GroupShape& shape, const int32_t* starts, const Block& block,
                          const float* weights, const float* rows, float* sums) {
  const size_t columns = shape.padded_width();
  const size_t stride = shape.score_columns();
  size_t last = block.row;  // the first query that sees none of the keys any more
  for (size_t key = block.first_key; key < block.end; key += kQueryTile) {
    while (last < block.end && shape.FirstKey(starts, last) < key + kQueryTile) ++last;
    const size_t first = std::max(key, block.row);  // queries before the key do not see it
    if (first >= last) continue;
    RowTimesRows<true>(last - first,
                       {weights + (first - block.row) * stride + key - block.base, 1, stride},
                       rows + first * columns, columns, columns, sums + key * columns, columns);
  }
}

// One query head; keys and values are packed.
template <class T>
void AddHead(const GroupShape& shape, const Head<T>& head, const Panels& at) {
  const size_t columns = shape.padded_width();
  const size_t stride = shape.score_columns();
  PackRows(shape, head.q, shape.q_stride, shape.scale, at.q);
  PackRows(shape, head.dout, shape.out_stride, 1.0f, at.dout);
  for (size_t row = 0; row < shape.seq; row += kQueryBlock) {
    const Block block(shape, head.starts, row);
    ScoreBlock(shape, head, block, at);
    AddTransposedProduct(shape, head.starts, block, at.p, at.dout, at.dv);
    AddTransposedProduct(shape, head.starts, block, at.ds, at.q, at.dk);
    for (size_t t = row; t < std::min(block.end, shape.seq); t += kQueryTile) {
      const size_t first = shape.FirstKey(head.starts, t);
      RowTimesRows<false>(t + kQueryTile - first,
                          {at.ds + (t - row) * stride + first - block.base, stride, 1},
                          at.k + first * columns, columns, columns, at.dq, columns);
      UnpackRows(shape, std::min(kQueryTile, shape.seq - t), at.dq, shape.scale,
                 head.dq + t * shape.q_stride, shape.q_stride);
    }
  }
}

template <class T>
void AttendGroupBackwardOf(const GroupShape& shape, const GroupBackward& group, float* workspace) {
  const Panels at(shape, workspace);
  const auto* const k = static_cast<const T*>(group.k);
  PackRows(shape, k, shape.kv_stride, 1.0f, at.k);
  PackTransposed(shape, k, shape.kv_stride, at.k_transposed);
  PackTransposed(shape, static_cast<const T*>(group.v), shape.kv_stride, at.v_transposed);
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
  UnpackRows(shape, shape.seq, at.dk, 1.0f, static_cast<T*>(group.dk), shape.kv_stride);
  UnpackRows(shape, shape.seq, at.dv, 1.0f, static_cast<T*>(group.dv), shape.kv_stride);
}

}  // namespace

void AttendGroupBackward(const GroupShape& shape, const GroupBackward& group, float* workspace) {
  shape.dtype == DType::kBFloat16 ? AttendGroupBackwardOf<BFloat16>(shape, group, workspace)
                                  : AttendGroupBackwardOf<float>(shape, group, workspace);
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
