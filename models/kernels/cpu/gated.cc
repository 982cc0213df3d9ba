#include "models/kernels/cpu/functions.h"
#include "models/kernels/cpu/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/kernels/cpu/gated.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "models/kernels/cpu/activation-inl.h"
#include "models/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {
namespace {

template <class Function, class T>
void Forward(size_t n, const T* gate, const T* up, T* y) {
  const DF d;
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    const VF value = Function::Value(Load(d, gate + i, part));
    Store(hn::Mul(value, Load(d, up + i, part)), d, y + i, part);
  });
}

template <class Function, class T>
void Backward(size_t n, const T* gate, const T* up, const T* dy, T* dgate, T* dup) {
  const DF d;
  ForEachVector(n, [&](size_t i, auto part) HWY_ATTR {
    const ValueAndSlope at = Function::At(Load(d, gate + i, part));
    const VF grad = Load(d, dy + i, part);
    const VF grad_of_value = hn::Mul(grad, Load(d, up + i, part));
    Store(hn::Mul(grad_of_value, at.slope), d, dgate + i, part);
    Store(hn::Mul(grad, at.value), d, dup + i, part);
  });
}

// Calls body(an object of the activation's type, null pointer of the element type).
template <class Body>
void Choose(DType dtype, Activation activation, const Body& body) {
  WithFunction(activation, [&](auto function) {
    dtype == DType::kBFloat16 ? body(function, static_cast<BFloat16*>(nullptr))
                              : body(function, static_cast<float*>(nullptr));
  });
}

}  // namespace

void GatedForward(DType dtype, Activation activation, size_t n, const void* gate, const void* up,
                  void* y) {
  Choose(dtype, activation, [&]<class T>(auto function, T*) {
    Forward<decltype(function)>(n, static_cast<const T*>(gate), static_cast<const T*>(up),
                                static_cast<T*>(y));
  });
}

void GatedBackward(DType dtype, Activation activation, size_t n, const void* gate, const void* up,
                   const void* dy, void* dgate, void* dup) {
  Choose(dtype, activation, [&]<class T>(auto function, T*) {
    Backward<decltype(function)>(n, static_cast<const T*>(gate), static_cast<const T*>(up),
                                 static_cast<const T*>(dy), static_cast<T*>(dgate),
                                 static_cast<T*>(dup));
  });
}

}  // namespace sluice::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::cpu {

HWY_EXPORT(GatedForward);
HWY_EXPORT(GatedBackward);

void GatedForward(Stream, DType dtype, Activation activation, int64_t n, const void* gate,
                  const void* up, void* y) {
  DivideAmongThreads(n, kValuesOfThread, [&](int64_t first, int64_t count) {
    HWY_DYNAMIC_DISPATCH(GatedForward)
    (dtype, activation, static_cast<size_t>(count), ValueAt(dtype, gate, first),
     ValueAt(dtype, up, first), ValueAt(dtype, y, first));
  });
}

void GatedBackward(Stream, DType dtype, Activation activation, int64_t n, const void* gate,
                   const void* up, const void* dy, void* dgate, void* dup) {
  DivideAmongThreads(n, kValuesOfThread, [&](int64_t first, int64_t count) {
    HWY_DYNAMIC_DISPATCH(GatedBackward)
    (dtype, activation, static_cast<size_t>(count), ValueAt(dtype, gate, first),
     ValueAt(dtype, up, first), ValueAt(dtype, dy, first), ValueAt(dtype, dgate, first),
     ValueAt(dtype, dup, first));
  });
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
