#include <algorithm>
#include <cstring>

#include "models/kernels/cpu/functions.h"
#include "models/spec/bfloat16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/kernels/cpu/elementwise.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "models/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {
namespace {

constexpr size_t kRowsAtOnce = 8;

// Adds `count` rows (at most kRowsAtOnce) to the sums, so that each sum is loaded and stored once
// for all of them.
template <class T>
void AddRows(size_t count, size_t dim, const T* x, float* sums) {
  const DF d;
  ForEachVector(dim, [&](size_t i, auto part) HWY_ATTR {
    VF sum = Load(d, x + i, part);
    for (size_t row = 1; row < count; ++row) sum = hn::Add(sum, Load(d, x + row * dim + i, part));
    Store(hn::Add(Load(d, sums + i, part), sum), d, sums + i, part);
  });
}

template <class T>
void ColumnSumsOf(size_t rows, size_t dim, const T* x, float* sums) {
  size_t row = 0;
  for (; row + kRowsAtOnce <= rows; row += kRowsAtOnce) {
    AddRows(kRowsAtOnce, dim, x + row * dim, sums);
  }
  if (row < rows) AddRows(rows - row, dim, x + row * dim, sums);
}

template <class T>
void ScaleOf(size_t n, float factor, T* x) {
  const DF d;
  const VF factors = hn::Set(d, factor);
  ForEachVector(n, [&](size_t i, auto part)
                       HWY_ATTR { Store(hn::Mul(Load(d, x + i, part), factors), d, x + i, part); });
}

template <class T, class Bits>
bool AllFiniteOf(size_t n, const T* x, Bits exponent) {
  const hn::ScalableTag<Bits> d;
  const Bits* bits = reinterpret_cast<const Bits*>(x);
  const auto mask = hn::Set(d, exponent);
  auto bad = hn::Zero(d);  // a lane of ones for each infinity or NaN
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    bad = hn::Or(bad, hn::VecFromMask(d, hn::Eq(hn::And(hn::LoadU(d, bits + i), mask), mask)));
  }
  bool finite = hn::AllTrue(d, hn::Eq(bad, hn::Zero(d)));
  for (; i < n; ++i) finite = finite && (bits[i] & exponent) != exponent;
  return finite;
}

}  // namespace

void ColumnSums(DType dtype, size_t rows, size_t dim, const void* x, float* sums) {
  if (dtype == DType::kBFloat16) {
    ColumnSumsOf(rows, dim, static_cast<const BFloat16*>(x), sums);
  } else {
    ColumnSumsOf(rows, dim, static_cast<const float*>(x), sums);
  }
}

void Scale(DType dtype, size_t n, float factor, void* x) {
  if (dtype == DType::kBFloat16) {
    ScaleOf(n, factor, static_cast<BFloat16*>(x));
  } else {
    ScaleOf(n, factor, static_cast<float*>(x));
  }
}

void Add(size_t n, const float* x, float* y) {
  const DF d;
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    Store(hn::Add(Load(d, y + i, part), Load(d, x + i, part)), d, y + i, part);
  });
}

double SumOfSquares(size_t n, const float* x) {
  constexpr size_t kSums = 4;
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> sums[kSums] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  size_t i = 0;
  for (; i + kSums * lanes <= n; i += kSums * lanes) {
    for (size_t s = 0; s < kSums; ++s) {
      const auto v = hn::PromoteTo(d, hn::LoadU(half, x + i + s * lanes));
      sums[s] = hn::MulAdd(v, v, sums[s]);
    }
  }
  const auto sum = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
  double total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < n; ++i) total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return total;
}

bool AllFinite(DType dtype, size_t n, const void* x) {
  if (dtype == DType::kBFloat16) {
    return AllFiniteOf(n, static_cast<const BFloat16*>(x), uint16_t{0x7F80});
  }
  return AllFiniteOf(n, static_cast<const float*>(x), uint32_t{0x7F800000});
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

HWY_EXPORT(Scale);
HWY_EXPORT(ColumnSums);
HWY_EXPORT(Add);
HWY_EXPORT(SumOfSquares);
HWY_EXPORT(AllFinite);

void ColumnSums(DType dtype, int64_t rows, int64_t dim, const void* x, float* sums,
                bool accumulate) {
  if (!accumulate) std::memset(sums, 0, static_cast<size_t>(dim) * sizeof(float));
  HWY_DYNAMIC_DISPATCH(ColumnSums)
  (dtype, static_cast<size_t>(rows), static_cast<size_t>(dim), x, sums);
}

void Accumulate(Stream stream, int64_t n, const float* x, float* y, bool add) {
  if (add) {
    HWY_DYNAMIC_DISPATCH(Add)(static_cast<size_t>(n), x, y);
  } else {
    Copy(stream, y, x, static_cast<size_t>(n) * sizeof(float));
  }
}

void BlockSquares(Stream, int64_t n, const float* x, double* sums) {
  for (int64_t at = 0; at < n; at += kSquaresBlock) {
    const int64_t count = std::min(kSquaresBlock, n - at);
    *sums++ = HWY_DYNAMIC_DISPATCH(SumOfSquares)(static_cast<size_t>(count), x + at);
  }
}

void AddInGroups(Stream, absl::Span<const GroupedSum> rows) {
  for (const GroupedSum& row : rows) {
    double whole = row.sums[0], part = row.sums[1];
    for (int64_t i = 0; i < row.n; ++i) {
      part += row.values[i];
      if ((row.first + i + 1) % kSumGroup != 0) continue;
      whole += part;
      part = 0;
    }
    row.sums[0] = whole;
    row.sums[1] = part;
  }
}

void AllFinite(Stream, DType dtype, int64_t n, const void* x, bool* finite) {
  *finite = HWY_DYNAMIC_DISPATCH(AllFinite)(dtype, static_cast<size_t>(n), x);
}

void Copy(Stream, void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

namespace {

float ToFloat(float x) { return x; }
float ToFloat(uint16_t x) { return FromBFloat16(x); }
void Narrow(float x, float* to) { *to = x; }
void Narrow(float x, uint16_t* to) { *to = ToBFloat16(x); }

template <class T>
void DropoutOf(int64_t n, const DropoutMask& mask, const T* x, const T* added, T* y) {
  uint64_t block = ~uint64_t{0};
  r123::Philox4x32::ctr_type drawn = {};
  for (int64_t i = 0; i < n; ++i) {
    const float factor = mask.Factor(static_cast<uint64_t>(i), &block, &drawn);
    // What is dropped counts nothing, even where it is not finite: then it shows elsewhere.
    const float kept = factor == 0 ? 0.0f : ToFloat(x[i]) * factor;
    Narrow(added == nullptr ? kept : ToFloat(added[i]) + kept, &y[i]);
  }
}

}  // namespace

void Dropout(Stream, DType dtype, int64_t n, const DropoutMask& mask, const void* x,
             const void* added, void* y) {
  if (dtype == DType::kBFloat16) {
    DropoutOf(n, mask, static_cast<const uint16_t*>(x), static_cast<const uint16_t*>(added),
              static_cast<uint16_t*>(y));
  } else {
    DropoutOf(n, mask, static_cast<const float*>(x), static_cast<const float*>(added),
              static_cast<float*>(y));
  }
}

void Scale(Stream, DType dtype, int64_t n, float factor, void* x) {
  HWY_DYNAMIC_DISPATCH(Scale)(dtype, static_cast<size_t>(n), factor, x);
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
