#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda/gated.cuh"
#include "models/kernels/cuda/launch.h"

namespace sluice::cuda {
namespace {

// Calls body(std::bool_constant<aligned>, an object of the activation's type, null pointer of the
// element type).
template <class Body>
void Choose(DType dtype, bool aligned, Activation activation, const Body& body) {
  Dispatch(dtype, aligned, [&](auto is_aligned, auto* type) {
    switch (activation) {
      case Activation::kNone:
        return body(is_aligned, Identity(), type);
      case Activation::kGelu:
        return body(is_aligned, Gelu(), type);
      case Activation::kRelu:
        return body(is_aligned, Relu(), type);
      case Activation::kSilu:
        return body(is_aligned, Silu(), type);
    }
  });
}

}  // namespace

void GatedForward(Stream stream, DType dtype, Activation activation, int64_t n, const void* gate,
                  const void* up, void* y) {
  if (n == 0) return;
  Choose(dtype, Aligned(gate, up, y), activation, [&](auto aligned, auto function, auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    Launch("gated_forward", stream, Blocks(n, kMapValues), kMapThreads,
           GatedForwardKernel<decltype(function), aligned.value, T>, n, static_cast<const T*>(gate),
           static_cast<const T*>(up), static_cast<T*>(y));
  });
}

void GatedBackward(Stream stream, DType dtype, Activation activation, int64_t n, const void* gate,
                   const void* up, const void* dy, void* dgate, void* dup) {
  if (n == 0) return;
  const bool aligned = Aligned(gate, up, dy, dgate, dup);
  Choose(dtype, aligned, activation, [&](auto is_aligned, auto function, auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    Launch("gated_backward", stream, Blocks(n, kMapValues), kMapThreads,
           GatedBackwardKernel<decltype(function), is_aligned.value, T>, n,
           static_cast<const T*>(gate), static_cast<const T*>(up), static_cast<const T*>(dy),
           static_cast<T*>(dgate), static_cast<T*>(dup));
  });
}

}  // namespace sluice::cuda
