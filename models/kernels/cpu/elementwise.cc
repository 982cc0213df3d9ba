#include <algorithm>
#include <atomic>
#include <cstring>

#include "models/kernels/cpu/functions.h"
#include "models/kernels/cpu/threads.h"
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
void AddRows(size_t count, size_t columns, size_t dim, const T* x, float* sums) {
  const DF d;
  ForEachVector(columns, [&](size_t i, auto part) HWY_ATTR {
    VF sum = Load(d, x + i, part);
    for (size_t row = 1; row < count; ++row) sum = hn::Add(sum, Load(d, x + row * dim + i, part));
    Store(hn::Add(Load(d, sums + i, part), sum), d, sums + i, part);
  });
}

template <class T>
void ColumnSumsOf(size_t rows, size_t columns, size_t dim, const T* x, float* sums) {
  for (size_t row = 0; row < rows; row += kRowsAtOnce) {
    AddRows(std::min(kRowsAtOnce, rows - row), columns, dim, x + row * dim, sums);
  }
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

// Of the first `columns` of rows of `dim` values.
void ColumnSums(DType dtype, size_t rows, size_t columns, size_t dim, const void* x, float* sums) {
  if (dtype == DType::kBFloat16) {
    ColumnSumsOf(rows, columns, dim, static_cast<const BFloat16*>(x), sums);
  } else {
    ColumnSumsOf(rows, columns, dim, static_cast<const float*>(x), sums);
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

namespace {

constexpr int64_t kBlocksOfThread = kValuesOfThread / kSquaresBlock;
constexpr int64_t kBytesOfThread = int64_t{1} << 18;

}  // namespace

void ColumnSums(Stream, DType dtype, absl::Span<const SummedColumns> tensors, bool accumulate,
                void* /*workspace*/) {
  for (const SummedColumns& tensor : tensors) {
    const auto rows = static_cast<size_t>(tensor.rows), dim = static_cast<size_t>(tensor.columns);
    if (!accumulate) std::memset(tensor.sums, 0, dim * sizeof(float));
    DivideAmongThreads(tensor.columns, ColumnsOfThread(tensor.rows), [&](int64_t first, int64_t n) {
      HWY_DYNAMIC_DISPATCH(ColumnSums)
      (dtype, rows, static_cast<size_t>(n), dim, ValueAt(dtype, tensor.x, first),
       tensor.sums + first);
    });
  }
}

void Accumulate(Stream stream, absl::Span<const AddedTensor> tensors, bool add) {
  for (const AddedTensor& tensor : tensors) {
    if (!add) {
      Copy(stream, tensor.sums, tensor.values, static_cast<size_t>(tensor.n) * sizeof(float));
      continue;
    }
    DivideAmongThreads(tensor.n, kValuesOfThread, [&](int64_t first, int64_t count) {
      HWY_DYNAMIC_DISPATCH(Add)
      (static_cast<size_t>(count), tensor.values + first, tensor.sums + first);
    });
  }
}

void BlockSquares(Stream, absl::Span<const SquaredTensor> tensors) {
  for (const SquaredTensor& tensor : tensors) {
    DivideAmongThreads(tensor.n, kBlocksOfThread * kSquaresBlock, [&](int64_t first, int64_t n) {
      for (int64_t at = first; at < first + n; at += kSquaresBlock) {
        const int64_t count = std::min(kSquaresBlock, tensor.n - at);
        tensor.sums[at / kSquaresBlock] =
            HWY_DYNAMIC_DISPATCH(SumOfSquares)(static_cast<size_t>(count), tensor.values + at);
      }
    });
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
  std::atomic<bool> all = true;
  DivideAmongThreads(n, kValuesOfThread, [&](int64_t first, int64_t count) {
    if (!HWY_DYNAMIC_DISPATCH(AllFinite)(dtype, static_cast<size_t>(count),
                                         ValueAt(dtype, x, first))) {
      all = false;
    }
  });
  *finite = all;
}

void Copy(Stream, void* to, const void* from, size_t bytes) {
  DivideAmongThreads(
      static_cast<int64_t>(bytes), kBytesOfThread, [&](int64_t first, int64_t count) {
        std::memcpy(static_cast<char*>(to) + first, static_cast<const char*>(from) + first,
                    static_cast<size_t>(count));
      });
}

namespace {

float ToFloat(float x) { return x; }
float ToFloat(uint16_t x) { return FromBFloat16(x); }
void Narrow(float x, float* to) { *to = x; }
void Narrow(float x, uint16_t* to) { *to = ToBFloat16(x); }

template <class T>
void DropoutOf(int64_t first, int64_t count, const DropoutMask& mask, const T* x, const T* added,
               T* y) {
  uint64_t block = ~uint64_t{0};
  r123::Philox4x32::ctr_type drawn = {};
  for (int64_t i = first; i < first + count; ++i) {
    const float factor = mask.Factor(static_cast<uint64_t>(i), &block, &drawn);
    // What is dropped counts nothing, even where it is not finite: then it shows elsewhere.
    const float kept = factor == 0 ? 0.0f : ToFloat(x[i]) * factor;
    Narrow(added == nullptr ? kept : ToFloat(added[i]) + kept, &y[i]);
  }
}

}  // namespace

void Dropout(Stream, DType dtype, int64_t n, const DropoutMask& mask, const void* x,
             const void* added, void* y) {
  DivideAmongThreads(n, kValuesOfThread / 4, [&](int64_t first, int64_t count) {
    if (dtype == DType::kBFloat16) {
      DropoutOf(first, count, mask, static_cast<const uint16_t*>(x),
                static_cast<const uint16_t*>(added), static_cast<uint16_t*>(y));
    } else {
      DropoutOf(first, count, mask, static_cast<const float*>(x), static_cast<const float*>(added),
                static_cast<float*>(y));
    }
  });
}

void Scale(Stream, DType dtype, int64_t n, float factor, void* x) {
  DivideAmongThreads(n, kValuesOfThread, [&](int64_t first, int64_t count) {
    HWY_DYNAMIC_DISPATCH(Scale)
    (dtype, static_cast<size_t>(count), factor, ValueAt(dtype, x, first));
  });
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
