#include <algorithm>
#include <cmath>
#include <limits>

#include "models/kernels/cpu/functions.h"
#include "models/kernels/cpu/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/kernels/cpu/cross_entropy.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "models/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {
namespace {

template <class T>
float ToFloat(const T* x) {
  return hn::GetLane(Load(DF(), x, Head{1}));
}

// NaNs may be passed over here; the sum of exponentials keeps them.
template <class T>
float Largest(size_t n, const T* x) {
  const VF least = hn::Set(DF(), -std::numeric_limits<float>::infinity());
  VF largest = least;
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    largest = hn::Max(largest, HeadOr(Load(DF(), x + i, part), least, part));
  });
  return MaxAll(largest);
}

template <class T>
float SumOfExponentials(size_t n, const T* x, float shift) {
  const VF offset = hn::Set(DF(), shift);
  VF sum = hn::Zero(DF());
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    sum = hn::Add(sum, OnlyHead(ExpOf(hn::Sub(Load(DF(), x + i, part), offset)), part));
  });
  return SumAll(sum);
}

// The slope of cap * tanh(x / cap), whose value is `capped`: 1 - tanh^2.
HWY_INLINE VF CapSlope(VF capped, VF inverse_cap) {
  const VF tanh = hn::Mul(capped, inverse_cap);
  return hn::NegMulAdd(tanh, tanh, hn::Set(DF(), 1.0f));
}

// x becomes scale * softmax(x), given the largest x and the sum of e^(x - largest); with a soft cap
// times its slope.
template <class T>
void ScaledSoftmax(size_t n, T* x, float largest, float sum, float scale, float soft_cap) {
  const DF d;
  const VF offset = hn::Set(d, largest);
  const VF factor = hn::Set(d, scale / sum);
  if (soft_cap == 0) {
    ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
      Store(hn::Mul(ExpOf(hn::Sub(Load(d, x + i, part), offset)), factor), d, x + i, part);
    });
    return;
  }
  const VF inverse_cap = hn::Set(d, 1 / soft_cap);
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    const VF logit = Load(d, x + i, part);
    const VF gradient = hn::Mul(ExpOf(hn::Sub(logit, offset)), factor);
    Store(hn::Mul(gradient, CapSlope(logit, inverse_cap)), d, x + i, part);
  });
}

// The target's entry of the gradient, scale * (p - 1), from fp64: p may be close to 1.
template <class T>
void StoreTargetGradient(T* x, double probability, float scale, float slope) {
  const auto gradient = static_cast<float>(static_cast<double>(scale) * (probability - 1));
  Store(hn::Set(DF(), gradient * slope), DF(), x, Head{1});
}

template <class T>
void StoreZeros(size_t n, T* x) {
  std::fill_n(x, n, T{0});
}

// One row with a target; its logits become their gradient where the scale is not 0.
template <class T>
RowResult RowOf(size_t classes, T* logits, size_t target, float grad_scale, float soft_cap) {
  const float logit = ToFloat(logits + target);
  const float largest = Largest(classes, logits);
  const float sum = SumOfExponentials(classes, logits, largest);
  const double loss = std::log(static_cast<double>(sum)) +
                      (static_cast<double>(largest) - static_cast<double>(logit));
  // Correct when no logit before the target is as large: of equal ones the first is chosen.
  const bool correct = logit == largest && (target == 0 || Largest(target, logits) < largest);
  if (grad_scale != 0) {
    const float tanh = soft_cap == 0 ? 0 : logit / soft_cap;
    ScaledSoftmax(classes, logits, largest, sum, grad_scale, soft_cap);
    StoreTargetGradient(logits + target, std::exp(-loss), grad_scale, 1 - tanh * tanh);
  }
  return {loss, correct};
}

// The shape's rows of `range`; rows behind the last one with a target are padding.
template <class T>
void CrossEntropyOf(const CrossEntropyShape& shape, RowRange range, T* logits,
                    const int32_t* targets, float grad_scale, RowResult* results) {
  const auto classes = static_cast<size_t>(shape.classes);
  const auto width = static_cast<size_t>(shape.row_width());
  for (int64_t r = range.first; r < range.end; ++r) {
    T* const row = logits + r * shape.row_width();
    const bool counts = r < shape.rows && targets[r] >= 0;
    if (counts) {
      results[r] = RowOf(classes, row, static_cast<size_t>(targets[r]), grad_scale, shape.soft_cap);
    }
    const size_t computed = counts ? classes : 0;
    if (grad_scale != 0) StoreZeros(width - computed, row + computed);
  }
}

template <class T>
void SoftCapOf(size_t n, float cap, T* x) {
  const DF d;
  const VF factor = hn::Set(d, cap), inverse = hn::Set(d, 1 / cap);
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    const VF tanh = TanhOf(hn::Mul(Load(d, x + i, part), inverse));
    Store(hn::Mul(factor, tanh), d, x + i, part);
  });
}

}  // namespace

void CrossEntropy(const CrossEntropyShape& shape, RowRange range, void* logits,
                  const int32_t* targets, float grad_scale, RowResult* results) {
  if (shape.dtype == DType::kBFloat16) {
    CrossEntropyOf(shape, range, static_cast<BFloat16*>(logits), targets, grad_scale, results);
  } else {
    CrossEntropyOf(shape, range, static_cast<float*>(logits), targets, grad_scale, results);
  }
}

void SoftCap(DType dtype, size_t n, float cap, void* x) {
  if (dtype == DType::kBFloat16) {
    SoftCapOf(n, cap, static_cast<BFloat16*>(x));
  } else {
    SoftCapOf(n, cap, static_cast<float*>(x));
  }
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

HWY_EXPORT(CrossEntropy);
HWY_EXPORT(SoftCap);

void CrossEntropy(Stream, const CrossEntropyShape& shape, void* logits, const int32_t* targets,
                  float grad_scale, bool accumulate, double* loss, int64_t* correct,
                  void* workspace) {
  auto* const results = static_cast<RowResult*>(workspace);
  DivideAmongThreads(shape.rows + shape.padding, RowsOfThread(shape.classes),
                     [&](int64_t first, int64_t count) {
                       HWY_DYNAMIC_DISPATCH(CrossEntropy)
                       (shape, {first, first + count}, logits, targets, grad_scale, results);
                     });
  if (loss == nullptr) return;
  double total = accumulate ? *loss : 0;
  int64_t hits = accumulate ? *correct : 0;
  for (int64_t r = 0; r < shape.rows; ++r) {
    if (targets[r] < 0) continue;
    total += results[r].loss;
    hits += results[r].correct ? 1 : 0;
  }
  *loss = total;
  *correct = hits;
}

void SoftCap(Stream, DType dtype, int64_t n, float cap, void* x) {
  DivideAmongThreads(n, kValuesOfThread, [&](int64_t first, int64_t count) {
    HWY_DYNAMIC_DISPATCH(SoftCap)
    (dtype, static_cast<size_t>(count), cap, ValueAt(dtype, x, first));
  });
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
