#ifndef SLUICE_MODELS_KERNELS_CUDA_GATED_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_GATED_CUH_

#include "models/kernels/cuda/activation.cuh"

namespace sluice::cuda {

// y may be gate or up.
template <class Function, bool kAligned, class T>
__global__ void __launch_bounds__(kMapThreads)
    GatedForwardKernel(int64_t n, const T* gate, const T* up, T* y) {
  ForOnePart<kAligned, kPart>(MapStart(), n, [&](auto whole, int64_t i) {
    float values[kPart], factors[kPart];
    LoadPart<whole.value>(gate, i, n, 0.0f, values);
    LoadPart<whole.value>(up, i, n, 0.0f, factors);
#pragma unroll
    for (int j = 0; j < kPart; ++j) values[j] = Function::template Value<T>(values[j]) * factors[j];
    StorePart<whole.value>(values, i, n, y);
  });
}

// dgate or dup may be dy.
template <class Function, bool kAligned, class T>
__global__ void __launch_bounds__(kMapThreads)
    GatedBackwardKernel(int64_t n, const T* gate, const T* up, const T* dy, T* dgate, T* dup) {
  ForOnePart<kAligned, kPart>(MapStart(), n, [&](auto whole, int64_t i) {
    float values[kPart], factors[kPart], grads[kPart];
    LoadPart<whole.value>(gate, i, n, 0.0f, values);
    LoadPart<whole.value>(up, i, n, 0.0f, factors);
    LoadPart<whole.value>(dy, i, n, 0.0f, grads);
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      const ValueAndSlope at = Function::template At<T>(values[j]);
      values[j] = grads[j] * factors[j] * at.slope;
      grads[j] *= at.value;
    }
    StorePart<whole.value>(values, i, n, dgate);
    StorePart<whole.value>(grads, i, n, dup);
  });
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_GATED_CUH_
