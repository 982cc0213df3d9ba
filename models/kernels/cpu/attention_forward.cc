#include <cmath>
#include <limits>

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

struct RowSoftmax {
  float lse;
  float sum;
};

// The first `valid` scores become e^(score - largest), the rest up to `end` zero.
RowSoftmax Exponentials(size_t valid, size_t end, float* scores) {
  const DF d;
  const VF least = hn::Set(d, -std::numeric_limits<float>::infinity());
  VF most = least;
  ForEachVector(valid, [&](size_t i, auto part) HWY_ATTR {
    most = hn::Max(most, HeadOr(Load(d, scores + i, part), least, part));
  });
  const float largest = MaxAll(most);
  const VF offset = hn::Set(d, largest);
  VF sums = hn::Zero(d);
  ForEachVector(valid, [&](size_t i, auto part) HWY_ATTR {
    const VF value = ExpOf(hn::Sub(Load(d, scores + i, part), offset));
    sums = hn::Add(sums, OnlyHead(value, part));
    Store(value, d, scores + i, part);
  });
  std::fill(scores + valid, scores + end, 0.0f);
  const float sum = SumAll(sums);
  return {largest + std::log(sum), sum};
}

template <class T>
void AttendHeadOf(const HeadShape& shape, const HeadForward& head, float* workspace) {
  const size_t columns = shape.padded_width();
  const size_t padded = shape.padded_seq();
  float* const queries = workspace;
  float* const keys = queries + shape.panel_floats();
  float* const values = keys + shape.panel_floats();
  float* const scores = values + shape.panel_floats();
  float* const sums = scores + kQueryTile * padded;

  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.width));
  PackRows(shape, static_cast<const T*>(head.q), shape.stride, scale, queries);
  PackTransposed(shape, static_cast<const T*>(head.k), keys);
  PackRows(shape, static_cast<const T*>(head.v), shape.stride, 1.0f, values);

  HeadShape out_shape = shape;
  out_shape.stride = shape.out_stride;
  for (size_t first = 0; first < shape.seq; first += kQueryTile) {
    const size_t seen = first + kQueryTile;  // by the tile's last row
    RowTimesPanels(shape.width, queries + first * columns, columns, keys, seen, scores, padded);
    float inverse[kQueryTile];
    for (size_t r = 0; r < kQueryTile; ++r) {
      const RowSoftmax row = Exponentials(first + r + 1, seen, scores + r * padded);
      inverse[r] = 1.0f / row.sum;
      if (first + r < shape.seq) head.lse[first + r] = row.lse;
    }
    RowTimesRows<false>(seen, {scores, padded, 1}, values, columns, columns, sums, columns);
    T* out = static_cast<T*>(head.out) + first * shape.out_stride;
    for (size_t r = 0; r < std::min(kQueryTile, shape.seq - first); ++r) {
      UnpackRows(out_shape, 1, sums + r * columns, inverse[r], out + r * shape.out_stride);
    }
  }
}

}  // namespace

void AttendHead(const HeadShape& shape, const HeadForward& head, float* workspace) {
  shape.dtype == DType::kBFloat16 ? AttendHeadOf<BFloat16>(shape, head, workspace)
                                  : AttendHeadOf<float>(shape, head, workspace);
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

HWY_EXPORT(AttendHead);

void AttendHead(const HeadShape& shape, const HeadForward& head, float* workspace) {
  HWY_DYNAMIC_DISPATCH(AttendHead)(shape, head, workspace);
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
