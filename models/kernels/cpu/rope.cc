#include <cmath>

#include "models/kernels/cpu/functions.h"
#include "models/kernels/cpu/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/kernels/cpu/rope.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "models/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {
namespace {

// The pairs (low[i], high[i]) of a head, and the cosines and sines of its position's angles.
template <class T>
struct HeadPairs {
  size_t count;
  const float* cosines;
  const float* sines;
  T *low, *high;
};

template <bool kInverse, class D, class T, class Part>
HWY_INLINE void TurnVector(D d, const HeadPairs<T>& of, size_t i, Part part) {
  const auto cos = Load(d, of.cosines + i, part), sin = Load(d, of.sines + i, part);
  const auto a = Load(d, of.low + i, part), b = Load(d, of.high + i, part);
  if constexpr (kInverse) {
    Store(hn::MulAdd(a, cos, hn::Mul(b, sin)), d, of.low + i, part);
    Store(hn::NegMulAdd(a, sin, hn::Mul(b, cos)), d, of.high + i, part);
  } else {
    Store(hn::NegMulAdd(b, sin, hn::Mul(a, cos)), d, of.low + i, part);
    Store(hn::MulAdd(a, sin, hn::Mul(b, cos)), d, of.high + i, part);
  }
}

// Turns pairs from `i` as long as whole vectors are left; returns the first that was not.
template <bool kInverse, class D, class T>
HWY_INLINE size_t TurnVectors(D d, const HeadPairs<T>& of, size_t i) {
  for (; i + hn::Lanes(d) <= of.count; i += hn::Lanes(d)) TurnVector<kInverse>(d, of, i, Full());
  return i;
}

// Heads are short: what is left of one of 80 goes through shorter vectors, since a part of a vector
// would go through memory, for every head anew.
template <bool kInverse, class T>
HWY_INLINE void TurnHead(const HeadPairs<T>& of) {
  const hn::CappedTag<float, 8> eight;
  const hn::CappedTag<float, 4> four;
  size_t i = TurnVectors<kInverse>(DF(), of, 0);
  i = TurnVectors<kInverse>(eight, of, i);
  i = TurnVectors<kInverse>(four, of, i);
  if (i < of.count) TurnVector<kInverse>(four, of, i, Head{of.count - i});
}

template <bool kInverse, class T>
void TurnRows(const RopeShape& shape, RowRange rows, const float* table, const int32_t* starts,
              T* x) {
  const auto width = static_cast<size_t>(shape.width);
  const size_t pairs = width / 2;
  for (int64_t r = rows.first; r < rows.end; ++r) {
    const int64_t position = r % shape.seq - (starts == nullptr ? 0 : starts[r]);
    const float* const cosines = table + position * shape.width;
    T* head = x + r * shape.stride;
    for (int64_t h = 0; h < shape.heads; ++h, head += width) {
      TurnHead<kInverse>(HeadPairs<T>{pairs, cosines, cosines + pairs, head, head + pairs});
    }
  }
}

template <class T>
void RopeOf(const RopeShape& shape, RowRange rows, const float* table, const int32_t* starts,
            bool inverse, void* x) {
  inverse ? TurnRows<true>(shape, rows, table, starts, static_cast<T*>(x))
          : TurnRows<false>(shape, rows, table, starts, static_cast<T*>(x));
}

}  // namespace

void Rope(const RopeShape& shape, RowRange rows, const float* table, const int32_t* starts,
          bool inverse, void* x) {
  shape.dtype == DType::kBFloat16 ? RopeOf<BFloat16>(shape, rows, table, starts, inverse, x)
                                  : RopeOf<float>(shape, rows, table, starts, inverse, x);
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

HWY_EXPORT(Rope);

void Rope(Stream, const RopeShape& shape, const float* table, const int32_t* starts, bool inverse,
          void* x) {
  DivideAmongThreads(shape.rows, RowsOfThread(shape.heads * shape.width),
                     [&](int64_t first, int64_t count) {
                       HWY_DYNAMIC_DISPATCH(Rope)
                       (shape, {first, first + count}, table, starts, inverse, x);
                     });
}

// A pass each: between them the values are in the caches.
void RmsNormRopeForward(Stream stream, const RopeShape& shape, float epsilon, float gain_offset,
                        const void* x, const float* gamma, const float* table,
                        const int32_t* starts, void* y, float* rrms) {
  RmsNormForward(stream, shape.dtype, shape.rows * shape.heads, shape.width, epsilon, gain_offset,
                 x, gamma, nullptr, y, rrms);
  Rope(stream, shape, table, starts, /*inverse=*/false, y);
}

void RmsNormRopeBackward(Stream stream, const RopeShape& shape, float gain_offset, void* dy,
                         const void* x, const float* gamma, const float* rrms, const float* table,
                         const int32_t* starts, void* dx, float* partial, void* workspace) {
  Rope(stream, shape, table, starts, /*inverse=*/true, dy);
  RmsNormBackward(stream, shape.dtype, shape.rows * shape.heads, shape.width, gain_offset, dy, x,
                  gamma, rrms, nullptr, dx, partial, workspace);
}

// Once per run, so in plain C++: in fp64, the cosine of a large angle is as exact as of a small one.
void RopeTable(Stream, int64_t seq, int64_t pairs, const float* inverse_frequencies,
               float magnitude, float* table) {
  const auto scaled = [magnitude](double value) {
    return static_cast<float>(static_cast<double>(magnitude) * value);
  };
  for (int64_t position = 0; position < seq; ++position, table += 2 * pairs) {
    for (int64_t i = 0; i < pairs; ++i) {
      const float angle = static_cast<float>(position) * inverse_frequencies[i];
      table[i] = scaled(std::cos(static_cast<double>(angle)));
      table[pairs + i] = scaled(std::sin(static_cast<double>(angle)));
    }
  }
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
