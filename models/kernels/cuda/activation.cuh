#ifndef SLUICE_MODELS_KERNELS_CUDA_ACTIVATION_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ACTIVATION_CUH_

#include "models/kernels/cuda/vector.cuh"

namespace sluice::cuda {

struct ValueAndSlope {
  float value, slope;
};

// Functions of a value, as tensors of T need it (see Quotient).
struct Identity {
  template <class T>
  static __device__ float Value(float x) {
    return x;
  }
  template <class T>
  static __device__ ValueAndSlope At(float x) {
    return {x, 1.0f};
  }
};

// GELU's tanh form (Hendrycks & Gimpel 2016, section 2) is x * sigmoid(2u), u = sqrt(2/pi) * (x +
// 0.044715 x^3), since (1 + tanh u) / 2 = sigmoid(2u).
struct Gelu {
  static constexpr float kTwoRootTwoOverPi = 1.59576912160573f;
  static constexpr float kCubic = 0.044715f;
  static constexpr float kLargestExponent = 80.0f;  // keeps e^-2u finite

  static __device__ float ExpOfMinusTwoU(float x) {
    const float minus_two_u = -kTwoRootTwoOverPi * x * fmaf(x * x, kCubic, 1.0f);
    // fminf loses a NaN, but it comes back in the product with x.
    return Exp(fminf(minus_two_u, kLargestExponent));
  }
  template <class T>
  static __device__ float Value(float x) {
    return Quotient<T>(x, 1.0f + ExpOfMinusTwoU(x));
  }
  template <class T>
  static __device__ ValueAndSlope At(float unbounded) {
    // Beyond +-16 the slope is 1 or 0; without the bound, large x would give 0 * infinity.
    const float x = fabsf(unbounded) > 16.0f ? copysignf(16.0f, unbounded) : unbounded;
    const float e = ExpOfMinusTwoU(x);
    const float s = Quotient<T>(1.0f, 1.0f + e);
    const float slope_of_two_u = kTwoRootTwoOverPi * fmaf(x * x, 3 * kCubic, 1.0f);
    // s (1 - s) = s s e, which does not cancel where s is close to 1.
    return {unbounded * s, fmaf(s * s * e, x * slope_of_two_u, s)};
  }
};

struct Relu {
  template <class T>
  static __device__ float Value(float x) {
    return x < 0.0f ? 0.0f : x;  // keeps NaN
  }
  template <class T>
  static __device__ ValueAndSlope At(float x) {
    return {Value<T>(x), x <= 0.0f ? 0.0f : 1.0f};
  }
};

struct Silu {
  static constexpr float kLargestExponent = 80.0f;  // keeps e^-x finite

  struct Sigmoid {
    float value, rest;  // s and 1 - s
  };
  // s = 1 / (1 + e^-x), and 1 - s = s e^-x, which does not cancel. Both are 0 below -80, so that a
  // large negative x has the value 0, and -infinity has NaN.
  template <class T>
  static __device__ Sigmoid SigmoidOf(float x) {
    const float e = Exp(fminf(-x, kLargestExponent));  // a NaN comes back in the product with x
    const float s = x < -kLargestExponent ? 0.0f : Quotient<T>(1.0f, 1.0f + e);
    return {s, s * e};
  }
  template <class T>
  static __device__ float Value(float x) {
    return x * SigmoidOf<T>(x).value;
  }
  template <class T>
  static __device__ ValueAndSlope At(float x) {
    const Sigmoid s = SigmoidOf<T>(x);
    const float value = x * s.value;
    return {value, fmaf(value, s.rest, s.value)};
  }
};

constexpr int kMapThreads = 256;
constexpr int64_t kMapValues = kMapThreads * kPart;  // of a block

__device__ inline int64_t MapStart() {
  return (static_cast<int64_t>(blockIdx.x) * kMapThreads + threadIdx.x) * kPart;
}

// Parts that a thread of the forward kernel loads before it uses the first: more bytes are under
// way, and half as many blocks are started.
constexpr int kForwardParts = 2;
constexpr int64_t kForwardValues = kForwardParts * kMapValues;  // of a block

template <class Function, class T>
__device__ inline void Apply(float (&values)[kPart]) {
#pragma unroll
  for (int j = 0; j < kPart; ++j) values[j] = Function::template Value<T>(values[j]);
}

// y may be x.
template <class Function, bool kAligned, class T>
__global__ void __launch_bounds__(kMapThreads)
    ActivationForwardKernel(int64_t n, const T* x, T* y) {
  const int64_t first = blockIdx.x * kForwardValues + static_cast<int64_t>(threadIdx.x) * kPart;
  if (kAligned && first + (kForwardParts - 1) * kMapValues + kPart <= n) {
    float values[kForwardParts][kPart];
#pragma unroll
    for (int k = 0; k < kForwardParts; ++k) LoadAligned(x + first + k * kMapValues, values[k]);
#pragma unroll
    for (int k = 0; k < kForwardParts; ++k) {
      Apply<Function, T>(values[k]);
      StoreAligned(values[k], y + first + k * kMapValues);
    }
    return;
  }
  for (int k = 0; k < kForwardParts; ++k) {
    ForOnePart<kAligned, kPart>(first + k * kMapValues, n, [&](auto whole, int64_t i) {
      float values[kPart];
      LoadPart<whole.value>(x, i, n, 0.0f, values);
      Apply<Function, T>(values);
      StorePart<whole.value>(values, i, n, y);
    });
  }
}

// dx may be dy.
template <class Function, bool kAligned, class T>
__global__ void __launch_bounds__(kMapThreads)
    ActivationBackwardKernel(int64_t n, const T* x, const T* dy, T* dx) {
  ForOnePart<kAligned, kPart>(MapStart(), n, [&](auto whole, int64_t i) {
    float values[kPart], grads[kPart];
    LoadPart<whole.value>(x, i, n, 0.0f, values);
    LoadPart<whole.value>(dy, i, n, 0.0f, grads);
#pragma unroll
    for (int j = 0; j < kPart; ++j) grads[j] *= Function::template At<T>(values[j]).slope;
    StorePart<whole.value>(grads, i, n, dx);
  });
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_ACTIVATION_CUH_
