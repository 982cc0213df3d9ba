#include "models/kernels/cpu/functions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/kernels/cpu/activation.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "models/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {
namespace {

// GELU's tanh form (Hendrycks & Gimpel 2016, section 2) is x * sigmoid(2u), u = sqrt(2/pi) * (x +
// 0.044715 x^3), since (1 + tanh u) / 2 = sigmoid(2u).
constexpr float kTwoRootTwoOverPi = 1.59576912160573f;
constexpr float kCubic = 0.044715f;
// Keeps e^-2u finite, and 1 / (1 + e^-2u) a normal number.
constexpr float kLargestExponent = 80.0f;

HWY_INLINE VF ExpOfMinusTwoU(VF x, VF x2) {
  const DF d;
  const VF inner = hn::MulAdd(x2, hn::Set(d, kCubic), hn::Set(d, 1.0f));
  const VF minus_two_u = hn::Mul(hn::Mul(x, hn::Set(d, -kTwoRootTwoOverPi)), inner);
  return ExpOf(hn::Min(minus_two_u, hn::Set(d, kLargestExponent)));
}

struct Gelu {
  static HWY_INLINE VF Value(VF x) {
    const VF one = hn::Set(DF(), 1.0f);
    return hn::Div(x, hn::Add(one, ExpOfMinusTwoU(x, hn::Mul(x, x))));
  }
  static HWY_INLINE VF Slope(VF unbounded) {
    const DF d;
    const VF one = hn::Set(d, 1.0f);
    // Beyond +-16 the slope is 1 or 0; without the bound, large x would give 0 * infinity.
    const VF bound = hn::CopySign(hn::Set(d, 16.0f), unbounded);
    const VF x = hn::IfThenElse(hn::Gt(hn::Abs(unbounded), hn::Abs(bound)), bound, unbounded);
    const VF x2 = hn::Mul(x, x);
    const VF e = ExpOfMinusTwoU(x, x2);
    const VF s = hn::Div(one, hn::Add(one, e));
    const VF slope_of_two_u =
        hn::Mul(hn::MulAdd(x2, hn::Set(d, 3 * kCubic), one), hn::Set(d, kTwoRootTwoOverPi));
    // s (1 - s) = s s e, which does not cancel where s is close to 1.
    return hn::MulAdd(hn::Mul(s, hn::Mul(s, e)), hn::Mul(x, slope_of_two_u), s);
  }
};

struct Relu {
  static HWY_INLINE VF Value(VF x) {
    return hn::IfThenElse(hn::Lt(x, hn::Zero(DF())), hn::Zero(DF()), x);  // keeps NaN
  }
  static HWY_INLINE VF Slope(VF x) {
    return hn::IfThenElseZero(hn::Not(hn::Le(x, hn::Zero(DF()))), hn::Set(DF(), 1.0f));
  }
};

template <class Function, class T>
void Forward(size_t n, const T* x, T* y) {
  const DF d;
  ForEachVector(n, [&](size_t i, auto part)
                       HWY_ATTR { Store(Function::Value(Load(d, x + i, part)), d, y + i, part); });
}

template <class Function, class T>
void Backward(size_t n, const T* x, const T* dy, T* dx) {
  const DF d;
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    const VF slope = Function::Slope(Load(d, x + i, part));
    Store(hn::Mul(Load(d, dy + i, part), slope), d, dx + i, part);
  });
}

template <class T>
void ForwardOf(Activation activation, size_t n, const void* x, void* y) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(y);
  if (activation == Activation::kGelu) {
    Forward<Gelu>(n, from, to);
  } else {
    Forward<Relu>(n, from, to);
  }
}

template <class T>
void BackwardOf(Activation activation, size_t n, const void* x, const void* dy, void* dx) {
  const T* at = static_cast<const T*>(x);
  const T* from = static_cast<const T*>(dy);
  T* to = static_cast<T*>(dx);
  if (activation == Activation::kGelu) {
    Backward<Gelu>(n, at, from, to);
  } else {
    Backward<Relu>(n, at, from, to);
  }
}

}  // namespace

void ActivationForward(DType dtype, Activation activation, size_t n, const void* x, void* y) {
  dtype == DType::kBFloat16 ? ForwardOf<BFloat16>(activation, n, x, y)
                            : ForwardOf<float>(activation, n, x, y);
}

void ActivationBackward(DType dtype, Activation activation, size_t n, const void* x, const void* dy,
                        void* dx) {
  dtype == DType::kBFloat16 ? BackwardOf<BFloat16>(activation, n, x, dy, dx)
                            : BackwardOf<float>(activation, n, x, dy, dx);
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

HWY_EXPORT(ActivationForward);
HWY_EXPORT(ActivationBackward);

void ActivationForward(Stream stream, DType dtype, Activation activation, int64_t n, const void* x,
                       void* y) {
  if (activation == Activation::kNone) {
    Copy(stream, y, x, static_cast<size_t>(n * SizeOf(dtype)));
    return;
  }
  HWY_DYNAMIC_DISPATCH(ActivationForward)(dtype, activation, static_cast<size_t>(n), x, y);
}

void ActivationBackward(Stream stream, DType dtype, Activation activation, int64_t n, const void* x,
                        const void* dy, void* dx) {
  if (activation == Activation::kNone) {
    if (dx != dy) Copy(stream, dx, dy, static_cast<size_t>(n * SizeOf(dtype)));
    return;
  }
  HWY_DYNAMIC_DISPATCH(ActivationBackward)(dtype, activation, static_cast<size_t>(n), x, dy, dx);
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
