#include "models/kernels/cuda/activation.cuh"
#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda/launch.h"

namespace sluice::cuda {
namespace {

template <class Function>
void Forward(Stream stream, DType dtype, int64_t n, const void* x, void* y) {
  Dispatch(dtype, Aligned(x, y), [&](auto aligned, auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    Launch("activation_forward", stream, Blocks(n, kForwardValues), kMapThreads,
           ActivationForwardKernel<Function, aligned.value, T>, n, static_cast<const T*>(x),
           static_cast<T*>(y));
  });
}

template <class Function>
void Backward(Stream stream, DType dtype, int64_t n, const void* x, const void* dy, void* dx) {
  Dispatch(dtype, Aligned(x, dy, dx), [&](auto aligned, auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    Launch("activation_backward", stream, Blocks(n, kMapValues), kMapThreads,
           ActivationBackwardKernel<Function, aligned.value, T>, n, static_cast<const T*>(x),
           static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

}  // namespace

void ActivationForward(Stream stream, DType dtype, Activation activation, int64_t n, const void* x,
                       void* y) {
  if (n == 0) return;
  switch (activation) {
    case Activation::kNone:
      Copy(stream, y, x, static_cast<size_t>(n * SizeOf(dtype)));
      break;
    case Activation::kGelu:
      Forward<Gelu>(stream, dtype, n, x, y);
      break;
    case Activation::kRelu:
      Forward<Relu>(stream, dtype, n, x, y);
      break;
    case Activation::kSilu:
      Forward<Silu>(stream, dtype, n, x, y);
      break;
  }
}

void ActivationBackward(Stream stream, DType dtype, Activation activation, int64_t n, const void* x,
                        const void* dy, void* dx) {
  if (n == 0) return;
  switch (activation) {
    case Activation::kNone:
      if (dx != dy) Copy(stream, dx, dy, static_cast<size_t>(n * SizeOf(dtype)));
      break;
    case Activation::kGelu:
      Backward<Gelu>(stream, dtype, n, x, dy, dx);
      break;
    case Activation::kRelu:
      Backward<Relu>(stream, dtype, n, x, dy, dx);
      break;
    case Activation::kSilu:
      Backward<Silu>(stream, dtype, n, x, dy, dx);
      break;
  }
}

}  // namespace sluice::cuda
