// The activations and their slopes, for one Highway target at a time (hence the toggled include
// guard).
#if defined(SLUICE_MODELS_KERNELS_CPU_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MODELS_KERNELS_CPU_ACTIVATION_INL_H_
#undef SLUICE_MODELS_KERNELS_CPU_ACTIVATION_INL_H_
#else
#define SLUICE_MODELS_KERNELS_CPU_ACTIVATION_INL_H_
#endif

#include "hwy/highway.h"
#include "models/kernels/cpu/vector-inl.h"
#include "models/kernels/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {

struct ValueAndSlope {
  VF value, slope;
};

struct Identity {
  static HWY_INLINE VF Value(VF x) { return x; }
  static HWY_INLINE ValueAndSlope At(VF x) { return {x, hn::Set(DF(), 1.0f)}; }
};

// GELU's tanh form (Hendrycks & Gimpel 2016, section 2) is x * sigmoid(2u), u = sqrt(2/pi) * (x +
// 0.044715 x^3), since (1 + tanh u) / 2 = sigmoid(2u).
constexpr float kTwoRootTwoOverPi = 1.59576912160573f;
constexpr float kCubic = 0.044715f;
// Keeps e^-2u finite, and 1 / (1 + e^-2u) a normal number.
constexpr float kLargestExponent = 80.0f;

struct Gelu {
  static HWY_INLINE VF ExpOfMinusTwoU(VF x, VF x2) {
    const DF d;
    const VF inner = hn::MulAdd(x2, hn::Set(d, kCubic), hn::Set(d, 1.0f));
    const VF minus_two_u = hn::Mul(hn::Mul(x, hn::Set(d, -kTwoRootTwoOverPi)), inner);
    return ExpOf(hn::Min(minus_two_u, hn::Set(d, kLargestExponent)));
  }
  static HWY_INLINE VF Value(VF x) {
    const VF one = hn::Set(DF(), 1.0f);
    return hn::Div(x, hn::Add(one, ExpOfMinusTwoU(x, hn::Mul(x, x))));
  }
  static HWY_INLINE ValueAndSlope At(VF unbounded) {
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
    return {hn::Mul(unbounded, s),
            hn::MulAdd(hn::Mul(s, hn::Mul(s, e)), hn::Mul(x, slope_of_two_u), s)};
  }
};

struct Relu {
  static HWY_INLINE VF Value(VF x) {
    return hn::IfThenElse(hn::Lt(x, hn::Zero(DF())), hn::Zero(DF()), x);  // keeps NaN
  }
  static HWY_INLINE ValueAndSlope At(VF x) {
    return {Value(x), hn::IfThenElseZero(hn::Not(hn::Le(x, hn::Zero(DF()))), hn::Set(DF(), 1.0f))};
  }
};

struct Silu {
  struct Sigmoid {
    VF value, rest;  // s and 1 - s
  };
  // s = 1 / (1 + e^-x), and 1 - s = s e^-x, which does not cancel. Both are 0 below -80, so that a
  // large negative x has the value 0, and -infinity has NaN.
  static HWY_INLINE Sigmoid SigmoidOf(VF x) {
    const DF d;
    const VF one = hn::Set(d, 1.0f);
    const VF e = ExpOf(hn::Min(hn::Neg(x), hn::Set(d, kLargestExponent)));
    const VF inside = hn::Div(one, hn::Add(one, e));
    const VF s = hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -kLargestExponent)), inside);
    return {s, hn::Mul(s, e)};
  }
  static HWY_INLINE VF Value(VF x) { return hn::Mul(x, SigmoidOf(x).value); }
  static HWY_INLINE ValueAndSlope At(VF x) {
    const Sigmoid s = SigmoidOf(x);
    const VF value = hn::Mul(x, s.value);
    return {value, hn::MulAdd(value, s.rest, s.value)};
  }
};

// Calls body(an object of the activation's type).
template <class Body>
HWY_INLINE void WithFunction(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::kNone:
      return body(Identity());
    case Activation::kGelu:
      return body(Gelu());
    case Activation::kRelu:
      return body(Relu());
    case Activation::kSilu:
      return body(Silu());
  }
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SLUICE_MODELS_KERNELS_CPU_ACTIVATION_INL_H_
