#ifndef SLUICE_MODELS_KERNELS_CUDA_OPTIMIZER_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_OPTIMIZER_CUH_

#include "models/kernels/cuda/vector.cuh"

// Many tensors in one launch: each block handles kOptimizerValues of one of them.
namespace sluice::cuda {

constexpr int kOptimizerThreads = 256;
constexpr int kOptimizerParts = 4;  // per thread
constexpr int64_t kOptimizerValues = kOptimizerThreads * kFloatPart * kOptimizerParts;
// The number of tensors that fits into the 4 KiB of a kernel's parameters.
constexpr int kOptimizerTensors = 64;

struct TensorList {
  float* weight[kOptimizerTensors];
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

// kAligned: all tensors of the list are aligned to 16 bytes.
template <bool kAligned, class Update>
__global__ void __launch_bounds__(kOptimizerThreads)
    OptimizerKernel(const __grid_constant__ TensorList list, const Update update) {
  int t = 0;
  while (t + 1 < list.count && list.first_block[t + 1] <= blockIdx.x) ++t;
  const int64_t n = list.n[t];
  const int64_t first = (blockIdx.x - list.first_block[t]) * kOptimizerValues;
  const auto change = [&](auto whole, int64_t i) {
    float w[kFloatPart], g[kFloatPart], m[kFloatPart], v[kFloatPart] = {};
    LoadPart<whole.value>(list.weight[t], i, n, 0.0f, w);
    LoadPart<whole.value>(list.gradient[t], i, n, 0.0f, g);
    LoadPart<whole.value>(list.moment1[t], i, n, 0.0f, m);
    if (Update::kTwoMoments) LoadPart<whole.value>(list.moment2[t], i, n, 0.0f, v);
#pragma unroll
    for (int j = 0; j < kFloatPart; ++j) update(list.decay[t], g[j], &w[j], &m[j], &v[j]);
    StorePart<whole.value>(w, i, n, list.weight[t]);
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
