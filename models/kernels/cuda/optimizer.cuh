#ifndef SLUICE_MODELS_KERNELS_CUDA_OPTIMIZER_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_OPTIMIZER_CUH_

#include "models/kernels/cuda/vector.cuh"

// Many tensors in one launch: each block handles kOptimizerValues of one of them.
namespace sluice::cuda {

constexpr int kOptimizerThreads = 256;
constexpr int kOptimizerParts = 4;  // per thread
constexpr int64_t kOptimizerValues = kOptimizerThreads * kFloatPart * kOptimizerParts;

struct TensorList {
  void* weight[kOptimizerTensors];
  uint16_t* low_halves[kOptimizerTensors];  // null: the weights are fp32
  const float* gradient[kOptimizerTensors];
  float* moment1[kOptimizerTensors];
  float* moment2[kOptimizerTensors];
  int64_t n[kOptimizerTensors];
  unsigned first_block[kOptimizerTensors];
  float decay[kOptimizerTensors];  // AdamW: 1 - lr * weight_decay; SGD: weight_decay
  int count;
};
static_assert(sizeof(TensorList) <= 4000);

// The corrections for the moments' bias are in `rate`, lr / (1 - beta1^step), and `root_scale`,
// 1 / sqrt(1 - beta2^step).
struct AdamWUpdate {
  static constexpr bool kTwoMoments = true;
  float grad_scale, beta1, beta2, rest1, rest2, rate, root_scale, epsilon;

  __device__ void operator()(float decay, float gradient, float* w, float* m, float* v) const {
    const float g = gradient * grad_scale;
    *m = fmaf(beta1, *m, rest1 * g);
    *v = fmaf(beta2, *v, rest2 * (g * g));
    const float root = fmaf(sqrtf(*v), root_scale, epsilon);
    *w = fmaf(-rate, *m / root, decay * *w);
  }
};

struct SgdUpdate {
  static constexpr bool kTwoMoments = false;
  float grad_scale, lr, momentum;

  __device__ void operator()(float decay, float gradient, float* w, float* m, float*) const {
    *m = fmaf(momentum, *m, fmaf(decay, *w, grad_scale * gradient));
    *w = fmaf(-lr, *m, *w);
  }
};

// Weights in two parts (models/spec/bfloat16.h).
__device__ inline float Join(uint16_t high, uint16_t low) {
  return __uint_as_float((static_cast<uint32_t>(high) << 16) + static_cast<int16_t>(low));
}

__device__ inline void Split(float value, uint16_t* high, uint16_t* low) {
  const uint32_t bits = value != value ? 0x7fc00000u : __float_as_uint(value);
  *high = static_cast<uint16_t>((bits + 0x8000u) >> 16);
  *low = static_cast<uint16_t>(bits);
}

// The four 16-bit values of a part, as 8 bytes at a time where kWhole.
template <bool kWhole>
__device__ inline void LoadHalves(const uint16_t* row, int64_t first, int64_t n,
                                  uint16_t (&values)[kFloatPart]) {
  if constexpr (kWhole) {
    const uint2 pairs = *reinterpret_cast<const uint2*>(row + first);
    values[0] = static_cast<uint16_t>(pairs.x), values[1] = static_cast<uint16_t>(pairs.x >> 16);
    values[2] = static_cast<uint16_t>(pairs.y), values[3] = static_cast<uint16_t>(pairs.y >> 16);
  } else {
#pragma unroll
    for (int j = 0; j < kFloatPart; ++j) values[j] = first + j < n ? row[first + j] : uint16_t{0};
  }
}

template <bool kWhole>
__device__ inline void StoreHalves(const uint16_t (&values)[kFloatPart], int64_t first, int64_t n,
                                   uint16_t* row) {
  if constexpr (kWhole) {
    *reinterpret_cast<uint2*>(row + first) =
        make_uint2(values[0] | static_cast<uint32_t>(values[1]) << 16,
                   values[2] | static_cast<uint32_t>(values[3]) << 16);
  } else {
#pragma unroll
    for (int j = 0; j < kFloatPart; ++j) {
      if (first + j < n) row[first + j] = values[j];
    }
  }
}

// Values of tensor t of the list.
template <bool kWhole>
__device__ inline void LoadWeights(const TensorList& list, int t, int64_t first,
                                   float (&values)[kFloatPart]) {
  if (list.low_halves[t] == nullptr) {
    LoadPart<kWhole>(static_cast<const float*>(list.weight[t]), first, list.n[t], 0.0f, values);
    return;
  }
  uint16_t high[kFloatPart], low[kFloatPart];
  LoadHalves<kWhole>(static_cast<const uint16_t*>(list.weight[t]), first, list.n[t], high);
  LoadHalves<kWhole>(list.low_halves[t], first, list.n[t], low);
#pragma unroll
  for (int j = 0; j < kFloatPart; ++j) values[j] = Join(high[j], low[j]);
}

template <bool kWhole>
__device__ inline void StoreWeights(const float (&values)[kFloatPart], int64_t first,
                                    const TensorList& list, int t) {
  if (list.low_halves[t] == nullptr) {
    StorePart<kWhole>(values, first, list.n[t], static_cast<float*>(list.weight[t]));
    return;
  }
  uint16_t high[kFloatPart], low[kFloatPart];
#pragma unroll
  for (int j = 0; j < kFloatPart; ++j) Split(values[j], &high[j], &low[j]);
  StoreHalves<kWhole>(high, first, list.n[t], static_cast<uint16_t*>(list.weight[t]));
  StoreHalves<kWhole>(low, first, list.n[t], list.low_halves[t]);
}

// kAligned: all tensors of the list are aligned to 16 bytes.
template <bool kAligned, class Update>
__global__ void __launch_bounds__(kOptimizerThreads)
    OptimizerKernel(const __grid_constant__ TensorList list, const Update update) {
  const int t = ListedTensor(list.first_block, list.count);
  const int64_t n = list.n[t];
  const int64_t first = (blockIdx.x - list.first_block[t]) * kOptimizerValues;
  const auto change = [&](auto whole, int64_t i) {
    float w[kFloatPart], g[kFloatPart], m[kFloatPart], v[kFloatPart] = {};
    LoadWeights<whole.value>(list, t, i, w);
    LoadPart<whole.value>(list.gradient[t], i, n, 0.0f, g);
    LoadPart<whole.value>(list.moment1[t], i, n, 0.0f, m);
    if (Update::kTwoMoments) LoadPart<whole.value>(list.moment2[t], i, n, 0.0f, v);
#pragma unroll
    for (int j = 0; j < kFloatPart; ++j) update(list.decay[t], g[j], &w[j], &m[j], &v[j]);
    StoreWeights<whole.value>(w, i, list, t);
    StorePart<whole.value>(m, i, n, list.moment1[t]);
    if (Update::kTwoMoments) StorePart<whole.value>(v, i, n, list.moment2[t]);
  };
#pragma unroll
  for (int part = 0; part < kOptimizerParts; ++part) {
    const int64_t i = first + (part * kOptimizerThreads + threadIdx.x) * kFloatPart;
    ForOnePart<kAligned, kFloatPart>(i, n, change);
  }
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_OPTIMIZER_CUH_
