#include <algorithm>
#include <cstring>

#include "models/kernels/cpu/attention.h"
#include "models/kernels/cpu/functions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/kernels/cpu/cached_attention.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "models/kernels/cpu/attention_tile-inl.h"
#include "models/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {
namespace {

// One query and the keys that it sees, of one head.
template <class T>
struct CachedRow {
  const T* query;
  const T* keys;    // [seen, width]
  const T* values;  // [seen, width]
  size_t seen;
  T* out;
};

// fp32 work areas of one query.
struct CachedWork {
  float* query;   // [width], scaled
  float* sums;    // [width]
  float* scores;  // [positions]
};

template <class T>
float DotProduct(size_t width, const float* a, const T* b) {
  const DF d;
  VF sums = hn::Zero(d);
  ForEachVector(width, [&](size_t i, auto part) HWY_ATTR {
    sums = hn::MulAdd(Load(d, a + i, part), Load(d, b + i, part), sums);
  });
  return SumAll(sums);
}

// sums = the weighted values, added key by key.
template <class T>
void AddValues(size_t width, const CachedRow<T>& row, const float* weights, float* sums) {
  const DF d;
  std::fill(sums, sums + width, 0.0f);
  for (size_t key = 0; key < row.seen; ++key) {
    const VF weight = hn::Set(d, weights[key]);
    const T* const value = row.values + key * width;
    ForEachVector(width, [&](size_t i, auto part) HWY_ATTR {
      const VF sum = hn::MulAdd(weight, Load(d, value + i, part), Load(d, sums + i, part));
      Store(sum, d, sums + i, part);
    });
  }
}

template <class T>
void AttendRow(const AttentionShape& shape, const CachedRow<T>& row, const CachedWork& work) {
  const DF d;
  const auto width = static_cast<size_t>(shape.width);
  const VF scale = hn::Set(d, ScoreScale(shape));
  ForEachVector(width, [&](size_t i, auto part) HWY_ATTR {
    Store(hn::Mul(scale, Load(d, row.query + i, part)), d, work.query + i, part);
  });
  for (size_t key = 0; key < row.seen; ++key) {
    work.scores[key] = DotProduct(width, work.query, row.keys + key * width);
  }
  if (shape.soft_cap != 0) CapScores(row.seen, 1.0f, shape.soft_cap, work.scores);
  const RowSoftmax softmax = Exponentials(row.seen, 1.0f, work.scores);
  AddValues(width, row, work.scores, work.sums);
  const VF inverse = hn::Set(d, 1.0f / softmax.sum);
  ForEachVector(width, [&](size_t i, auto part) HWY_ATTR {
    Store(hn::Mul(inverse, Load(d, work.sums + i, part)), d, row.out + i, part);
  });
}

template <class T>
void AttendCachedOf(const AttentionShape& shape, int64_t positions, int64_t first,
                    const AttentionInput& in, void* cache, void* out, float* workspace) {
  const int64_t width = shape.width, group = shape.heads / shape.kv_heads;
  const auto floats = static_cast<size_t>(width);
  const CachedWork work = {workspace, workspace + floats, workspace + 2 * floats};
  for (int64_t h = 0; h < shape.kv_heads; ++h) {
    T* const keys = static_cast<T*>(cache) + h * positions * width;
    T* const values = keys + shape.kv_heads * positions * width;
    for (int64_t r = 0; r < shape.seq; ++r) {
      const int64_t from = r * shape.kv_stride + h * width, to = (first + r) * width;
      std::memcpy(keys + to, static_cast<const T*>(in.k) + from, floats * sizeof(T));
      std::memcpy(values + to, static_cast<const T*>(in.v) + from, floats * sizeof(T));
    }
    for (int64_t r = 0; r < shape.seq; ++r) {
      const int64_t end = first + r + 1;
      const int64_t begin = shape.window > 0 ? std::max<int64_t>(0, end - shape.window) : 0;
      for (int64_t head = h * group; head < (h + 1) * group; ++head) {
        AttendRow<T>(shape,
                     {.query = static_cast<const T*>(in.q) + r * shape.q_stride + head * width,
                      .keys = keys + begin * width,
                      .values = values + begin * width,
                      .seen = static_cast<size_t>(end - begin),
                      .out = static_cast<T*>(out) + (r * shape.heads + head) * width},
                     work);
      }
    }
  }
}

}  // namespace

void AttendCachedRows(const AttentionShape& shape, int64_t positions, int64_t first,
                      const AttentionInput& in, void* cache, void* out, float* workspace) {
  (shape.dtype == DType::kBFloat16
       ? AttendCachedOf<BFloat16>
       : AttendCachedOf<float>)(shape, positions, first, in, cache, out, workspace);
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

HWY_EXPORT(AttendCachedRows);

void AttendCached(Stream, const AttentionShape& shape, int64_t positions, int64_t first,
                  const AttentionInput& in, void* cache, void* out, void* workspace) {
  HWY_DYNAMIC_DISPATCH(AttendCachedRows)
  (shape, positions, first, in, cache, out, static_cast<float*>(workspace));
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
