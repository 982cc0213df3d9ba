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

// A head's work areas, cut from the workspace in this order. All fp32, rows of
// shape.padded_width().
struct Panels {
  Panels(const HeadShape& shape, float* workspace) {
    float** const matrices[] = {&q, &k, &k_transposed, &v_transposed, &dout, &dk, &dv};
    for (float** matrix : matrices) {
      *matrix = workspace;
      workspace += shape.panel_floats();
    }
    p = workspace;
    ds = p + kQueryBlock * shape.padded_seq();
    dq = ds + kQueryBlock * shape.padded_seq();
  }
  float *q, *k, *k_transposed, *v_transposed, *dout, *dk, *dv;
  float *p, *ds;  // [kQueryBlock, padded_seq]
  float* dq;      // [kQueryTile, padded_width]
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

// scores -> p = e^(score - lse), dp -> ds = p (dp - delta) for the `valid` first keys; both zero
// from there to `end`.
void SoftmaxGradient(size_t valid, size_t end, float lse, float delta, float* p, float* ds) {
  const DF d;
  const VF offset = hn::Set(d, lse);
  const VF deltas = hn::Set(d, delta);
  ForEachVector(valid, [&](size_t i, auto part) HWY_ATTR {
    const VF weight = ExpOf(hn::Sub(Load(d, p + i, part), offset));
    Store(weight, d, p + i, part);
    Store(hn::Mul(weight, hn::Sub(Load(d, ds + i, part), deltas)), d, ds + i, part);
  });
  std::fill(p + valid, p + end, 0.0f);
  std::fill(ds + valid, ds + end, 0.0f);
}

// Fills p and ds for the kQueryBlock rows from `first`, for keys before first + kQueryBlock.
template <class T>
void ScoreBlock(const HeadShape& shape, const HeadBackward& head, size_t first, const Panels& at) {
  const size_t columns = shape.padded_width();
  const size_t padded = shape.padded_seq();
  const size_t end = first + kQueryBlock;
  for (size_t t = first; t < end; t += kQueryTile) {
    float* const p = at.p + (t - first) * padded;
    float* const ds = at.ds + (t - first) * padded;
    const size_t seen = t + kQueryTile;
    RowTimesPanels(shape.width, at.q + t * columns, columns, at.k_transposed, seen, p, padded);
    RowTimesPanels(shape.width, at.dout + t * columns, columns, at.v_transposed, seen, ds, padded);
    for (size_t r = 0; r < kQueryTile; ++r) {
      const size_t row = t + r;
      const bool real = row < shape.seq;
      const size_t offset = row * shape.out_stride;
      const float delta = !real ? 0.0f
                                : Dot(shape.width, static_cast<const T*>(head.dout) + offset,
                                      static_cast<const T*>(head.out) + offset);
      SoftmaxGradient(real ? row + 1 : 0, end, real ? head.lse[row] : 0.0f, delta, p + r * padded,
                      ds + r * padded);
    }
  }
}

// sums[keys, :] += weights[block, keys]^T * rows[block, :] for the keys that the block of queries
// at `first` sees.
void AddTransposedProduct(const HeadShape& shape, size_t first, const float* weights,
                          const float* rows, float* sums) {
  const size_t columns = shape.padded_width();
  const size_t padded = shape.padded_seq();
  for (size_t key = 0; key < first + kQueryBlock; key += kQueryTile) {
    const size_t skip = key > first ? key - first : 0;  // queries before the key do not see it
    RowTimesRows<true>(kQueryBlock - skip, {weights + skip * padded + key, 1, padded},
                       rows + (first + skip) * columns, columns, columns, sums + key * columns,
                       columns);
  }
}

template <class T>
void AttendHeadBackwardOf(const HeadShape& shape, const HeadBackward& head, float* workspace) {
  const Panels at(shape, workspace);
  const size_t columns = shape.padded_width();
  const size_t padded = shape.padded_seq();
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.width));
  PackRows(shape, static_cast<const T*>(head.q), shape.stride, scale, at.q);
  PackRows(shape, static_cast<const T*>(head.k), shape.stride, 1.0f, at.k);
  PackTransposed(shape, static_cast<const T*>(head.k), at.k_transposed);
  PackTransposed(shape, static_cast<const T*>(head.v), at.v_transposed);
  PackRows(shape, static_cast<const T*>(head.dout), shape.out_stride, 1.0f, at.dout);
  std::fill(at.dk, at.dk + 2 * shape.panel_floats(), 0.0f);  // dv lies behind it

  for (size_t first = 0; first < shape.seq; first += kQueryBlock) {
    ScoreBlock<T>(shape, head, first, at);
    AddTransposedProduct(shape, first, at.p, at.dout, at.dv);
    AddTransposedProduct(shape, first, at.ds, at.q, at.dk);
    for (size_t t = first; t < std::min(first + kQueryBlock, shape.seq); t += kQueryTile) {
      RowTimesRows<false>(t + kQueryTile, {at.ds + (t - first) * padded, padded, 1}, at.k, columns,
                          columns, at.dq, columns);
      UnpackRows(shape, std::min(kQueryTile, shape.seq - t), at.dq, scale,
                 static_cast<T*>(head.dq) + t * shape.stride);
    }
  }
  UnpackRows(shape, shape.seq, at.dk, 1.0f, static_cast<T*>(head.dk));
  UnpackRows(shape, shape.seq, at.dv, 1.0f, static_cast<T*>(head.dv));
}

}  // namespace

void AttendHeadBackward(const HeadShape& shape, const HeadBackward& head, float* workspace) {
  shape.dtype == DType::kBFloat16 ? AttendHeadBackwardOf<BFloat16>(shape, head, workspace)
                                  : AttendHeadBackwardOf<float>(shape, head, workspace);
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

HWY_EXPORT(AttendHeadBackward);

void AttendHeadBackward(const HeadShape& shape, const HeadBackward& head, float* workspace) {
  HWY_DYNAMIC_DISPATCH(AttendHeadBackward)(shape, head, workspace);
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
