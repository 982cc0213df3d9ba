#include <cmath>

#include "models/kernels/cpu/functions.h"
#include "models/kernels/cpu/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/kernels/cpu/optimizer.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "models/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {

// Where an optimizer's weights are, as fp32 or in two parts.
struct WholeWeights {
  explicit WholeWeights(const OptimizerTensor& tensor) : at(static_cast<float*>(tensor.weight)) {}
  template <class Part>
  HWY_INLINE VF Read(size_t i, Part part) const {
    return Load(DF(), at + i, part);
  }
  template <class Part>
  HWY_INLINE void Write(VF value, size_t i, Part part) const {
    Store(value, DF(), at + i, part);
  }
  float* at;
};

struct SplitWeights {
  explicit SplitWeights(const OptimizerTensor& tensor)
      : high(static_cast<BFloat16*>(tensor.weight)), low(tensor.low_halves) {}
  template <class Part>
  HWY_INLINE VF Read(size_t i, Part part) const {
    return LoadSplit(high + i, low + i, part);
  }
  template <class Part>
  HWY_INLINE void Write(VF value, size_t i, Part part) const {
    StoreSplit(value, high + i, low + i, part);
  }
  BFloat16* high;
  uint16_t* low;
};

// `rate` is lr / (1 - beta1^step), `root_scale` 1 / sqrt(1 - beta2^step): the bias corrections.
template <class Weights>
void AdamWOf(const AdamWStep& step, float rate, float root_scale, const OptimizerTensor& tensor) {
  const DF d;
  const Weights w(tensor);
  const float* grad = tensor.gradient;
  float *m = tensor.moment1, *v = tensor.moment2;
  const VF scale = hn::Set(d, step.grad_scale);
  const VF beta1 = hn::Set(d, step.beta1);
  const VF beta2 = hn::Set(d, step.beta2);
  const VF rest1 = hn::Set(d, 1.0f - step.beta1);
  const VF rest2 = hn::Set(d, 1.0f - step.beta2);
  const VF keep = hn::Set(d, 1.0f - step.lr * tensor.weight_decay);
  const VF roots = hn::Set(d, root_scale);
  const VF epsilon = hn::Set(d, step.epsilon);
  const VF rates = hn::Set(d, rate);
  ForEachVector(static_cast<size_t>(tensor.n), [&](size_t i, auto part) HWY_ATTR {
    const VF g = hn::Mul(Load(d, grad + i, part), scale);
    const VF first = hn::MulAdd(beta1, Load(d, m + i, part), hn::Mul(rest1, g));
    const VF second = hn::MulAdd(beta2, Load(d, v + i, part), hn::Mul(rest2, hn::Mul(g, g)));
    const VF root = hn::MulAdd(hn::Sqrt(second), roots, epsilon);
    const VF kept = hn::Mul(keep, w.Read(i, part));
    Store(first, d, m + i, part);
    Store(second, d, v + i, part);
    w.Write(hn::NegMulAdd(rates, hn::Div(first, root), kept), i, part);
  });
}

void AdamW(const AdamWStep& step, float rate, float root_scale, const OptimizerTensor& tensor) {
  tensor.low_halves == nullptr ? AdamWOf<WholeWeights>(step, rate, root_scale, tensor)
                               : AdamWOf<SplitWeights>(step, rate, root_scale, tensor);
}

template <class Weights>
void SgdOf(const SgdStep& step, const OptimizerTensor& tensor) {
  const DF d;
  const Weights w(tensor);
  const float* grad = tensor.gradient;
  float* momentum = tensor.moment1;
  ForEachVector(static_cast<size_t>(tensor.n), [&](size_t i, auto part) HWY_ATTR {
    const VF at = w.Read(i, part);
    const VF pull = hn::MulAdd(hn::Set(d, tensor.weight_decay), at,
                               hn::Mul(hn::Set(d, step.grad_scale), Load(d, grad + i, part)));
    const VF speed = hn::MulAdd(hn::Set(d, step.momentum), Load(d, momentum + i, part), pull);
    Store(speed, d, momentum + i, part);
    w.Write(hn::NegMulAdd(hn::Set(d, step.lr), speed, at), i, part);
  });
}

void Sgd(const SgdStep& step, const OptimizerTensor& tensor) {
  tensor.low_halves == nullptr ? SgdOf<WholeWeights>(step, tensor)
                               : SgdOf<SplitWeights>(step, tensor);
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

HWY_EXPORT(AdamW);
HWY_EXPORT(Sgd);

namespace {

// Calls visit(part of a tensor) for the parts of all tensors, on several threads.
void ForEachPart(absl::Span<const OptimizerTensor> tensors,
                 absl::FunctionRef<void(const OptimizerTensor&)> visit) {
  for (const OptimizerTensor& tensor : tensors) {
    DivideAmongThreads(tensor.n, kValuesOfThread, [&](int64_t first, int64_t count) {
      OptimizerTensor part = tensor;
      part.n = count;
      part.weight = ValueAt(tensor.low_halves == nullptr ? DType::kFloat32 : DType::kBFloat16,
                            tensor.weight, first);
      if (part.low_halves != nullptr) part.low_halves += first;
      part.gradient += first;
      part.moment1 += first;
      if (part.moment2 != nullptr) part.moment2 += first;
      visit(part);
    });
  }
}

}  // namespace

void AdamW(Stream, const AdamWStep& step, absl::Span<const OptimizerTensor> tensors) {
  const auto count = static_cast<double>(step.step);
  const double rate =
      static_cast<double>(step.lr) / (1 - std::pow(static_cast<double>(step.beta1), count));
  const double root_scale = 1 / std::sqrt(1 - std::pow(static_cast<double>(step.beta2), count));
  ForEachPart(tensors, [&](const OptimizerTensor& part) {
    HWY_DYNAMIC_DISPATCH(AdamW)
    (step, static_cast<float>(rate), static_cast<float>(root_scale), part);
  });
}

void Sgd(Stream, const SgdStep& step, absl::Span<const OptimizerTensor> tensors) {
  ForEachPart(tensors, [&](const OptimizerTensor& part) { HWY_DYNAMIC_DISPATCH(Sgd)(step, part); });
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
