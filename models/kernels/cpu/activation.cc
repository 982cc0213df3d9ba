#include "models/kernels/cpu/functions.h"
#include "models/kernels/cpu/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/kernels/cpu/activation.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "models/kernels/cpu/activation-inl.h"
#include "models/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::cpu::HWY_NAMESPACE {
namespace {

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
    const VF slope = Function::At(Load(d, x + i, part)).slope;
    Store(hn::Mul(Load(d, dy + i, part), slope), d, dx + i, part);
  });
}

template <class T>
void ForwardOf(Activation activation, size_t n, const void* x, void* y) {
  WithFunction(activation, [&](auto function) {
    Forward<decltype(function)>(n, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

template <class T>
void BackwardOf(Activation activation, size_t n, const void* x, const void* dy, void* dx) {
  WithFunction(activation, [&](auto function) {
    Backward<decltype(function)>(n, static_cast<const T*>(x), static_cast<const T*>(dy),
                                 static_cast<T*>(dx));
  });
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
  DivideAmongThreads(n, kValuesOfThread, [&](int64_t first, int64_t count) {
    HWY_DYNAMIC_DISPATCH(ActivationForward)
    (dtype, activation, static_cast<size_t>(count), ValueAt(dtype, x, first),
     ValueAt(dtype, y, first));
  });
}

void ActivationBackward(Stream stream, DType dtype, Activation activation, int64_t n, const void* x,
                        const void* dy, void* dx) {
  if (activation == Activation::kNone) {
    if (dx != dy) Copy(stream, dx, dy, static_cast<size_t>(n * SizeOf(dtype)));
    return;
  }
  DivideAmongThreads(n, kValuesOfThread, [&](int64_t first, int64_t count) {
    HWY_DYNAMIC_DISPATCH(ActivationBackward)
    (dtype, activation, static_cast<size_t>(count), ValueAt(dtype, x, first),
     ValueAt(dtype, dy, first), ValueAt(dtype, dx, first));
  });
}

}  // namespace sluice::cpu
#endif  // HWY_ONCE
