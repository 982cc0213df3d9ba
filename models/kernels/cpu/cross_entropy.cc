#include <cmath>

#include "models/kernels/cpu/functions.h"

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

// x becomes scale * softmax(x), given the largest x and the sum of e^(x - largest).
template <class T>
void ScaledSoftmax(size_t n, T* x, float largest, float sum, float scale) {
  const DF d;
  const VF offset = hn::Set(d, largest);
  const VF factor = hn::Set(d, scale / sum);
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    Store(hn::Mul(ExpOf(hn::Sub(Load(d, x + i, part), offset)), factor), d, x + i, part);
  });
}

// The target's entry of the gradient, scale * (p - 1), from fp64: p may be close to 1.
template <class T>
void StoreTargetGradient(T* x, double probability, float scale) {
  const auto gradient = static_cast<float>(static_cast<double>(scale) * (probability - 1));
  Store(hn::Set(DF(), gradient), DF(), x, Head{1});
}

template <class T>
void CrossEntropyOf(size_t rows, size_t classes, T* logits, const int32_t* targets,
                    float grad_scale, double* loss, int64_t* correct) {
  double total = 0;
  int64_t hits = 0;
  for (size_t r = 0; r < rows; ++r, logits += classes) {
    const auto target = static_cast<size_t>(targets[r]);
    const float logit = ToFloat(logits + target);
    const float largest = Largest(classes, logits);
    const float sum = SumOfExponentials(classes, logits, largest);
    const double row_loss = std::log(static_cast<double>(sum)) +
                            (static_cast<double>(largest) - static_cast<double>(logit));
    total += row_loss;
    // Correct when no logit before the target is as large: of equal ones the first is chosen.
    if (logit == largest && (target == 0 || Largest(target, logits) < largest)) ++hits;
    if (grad_scale != 0) {
      ScaledSoftmax(classes, logits, largest, sum, grad_scale);
      StoreTargetGradient(logits + target, std::exp(-row_loss), grad_scale);
    }
  }
  *loss = total;
  *correct = hits;
}

}  // namespace

void CrossEntropy(DType dtype, size_t rows, size_t classes, void* logits, const int32_t* targets,
                  float grad_scale, double* loss, int64_t* correct) {
  if (dtype == DType::kBFloat16) {
    CrossEntropyOf(rows, classes, static_cast<BFloat16*>(logits), targets, grad_scale, loss,
                   correct);
  } else {
    CrossEntropyOf(rows, classes, static_cast<float*>(logits), targets, grad_scale, loss, correct);
  }
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

HWY_EXPORT(CrossEntropy);

void CrossEntropy(Stream, DType dtype, int64_t rows, int64_t classes, void* logits,
                  const int32_t* targets, float grad_scale, double* loss, int64_t* correct,
                  void* /*workspace*/) {
  HWY_DYNAMIC_DISPATCH(CrossEntropy)
  (dtype, static_cast<size_t>(rows), static_cast<size_t>(classes), logits, targets, grad_scale,
   loss, correct);
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
