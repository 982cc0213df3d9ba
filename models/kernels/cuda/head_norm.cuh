#ifndef SLUICE_MODELS_KERNELS_CUDA_HEAD_NORM_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_HEAD_NORM_CUH_

#include "models/kernels/cuda/turn.cuh"
#include "models/kernels/cuda/vector.cuh"
#include "models/kernels/kernels.h"

// The RMS norm and the rotary positions of heads in one pass: what lies between them is neither
// written nor rounded. HeadLanes lanes, 1 << shift, have a head together, each kPart pairs of it, a
// part of its low half and the same part of its high half: a warp has several heads.
namespace sluice::cuda {

// A lane's values of a head: those from `i` on of its low half, and of its high half.
struct HeadPart {
  float low[kPart] = {}, high[kPart] = {};
};

// kWhole, here and below: tensors are aligned to 16 bytes, and a half is a multiple of kPart.
template <bool kWhole, class T>
__device__ inline void LoadHead(const T* head, int64_t i, int64_t pairs, HeadPart* part) {
  LoadPart<kWhole>(head, i, pairs, 0.0f, part->low);
  LoadPart<kWhole>(head + pairs, i, pairs, 0.0f, part->high);
}

template <bool kWhole, class T>
__device__ inline void StoreHead(const HeadPart& part, int64_t i, int64_t pairs, T* head) {
  StorePart<kWhole>(part.low, i, pairs, head);
  StorePart<kWhole>(part.high, i, pairs, head + pairs);
}

// The cosines (low) and sines (high) of the position of head `index` of [rows * heads].
template <bool kWhole>
__device__ inline void LoadAngles(const RopeShape& shape, const float* table, const int32_t* starts,
                                  int64_t index, int64_t i, HeadPart* angles) {
  const int64_t position = PositionOf(shape, starts, index / shape.heads);
  LoadHead<kWhole>(table + position * shape.width, i, shape.width / 2, angles);
}

// The sum over the lanes of a head, the same in all of them.
__device__ inline float HeadSum(int shift, float x) {
  for (int lanes = (1 << shift) / 2; lanes > 0; lanes /= 2) {
    x += __shfl_xor_sync(kWholeWarp, x, lanes);
  }
  return x;
}

template <class T>
struct HeadNorm {
  RopeShape shape;
  float epsilon, gain_offset;
  const T* x;
  const float* gamma;
  const float* table;
  const int32_t* starts;
  T* y;
  float* rrms;
};

template <bool kWhole, class T>
__global__ void __launch_bounds__(kHeadThreads)
    HeadNormForwardKernel(int shift, const __grid_constant__ HeadNorm<T> of) {
  const int64_t width = of.shape.width, pairs = width / 2;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kHeadThreads + threadIdx.x;
  const int64_t index = at >> shift, i = (at - (index << shift)) * kPart;
  // All lanes of a warp meet in the sum.
  const bool present = index < of.shape.rows * of.shape.heads && i < pairs;
  HeadPart x;
  if (present) LoadHead<kWhole>(of.x + index * width, i, pairs, &x);
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kPart; ++j) {
    squares = fmaf(x.low[j], x.low[j], squares);
    squares = fmaf(x.high[j], x.high[j], squares);
  }
  const float scale =
      1.0f / sqrtf(HeadSum(shift, squares) / static_cast<float>(width) + of.epsilon);
  if (!present) return;
  if (i == 0) of.rrms[index] = scale;
  HeadPart gammas, angles;
  LoadHead<kWhole>(of.gamma, i, pairs, &gammas);
  LoadAngles<kWhole>(of.shape, of.table, of.starts, index, i, &angles);
#pragma unroll
  for (int j = 0; j < kPart; ++j) {
    x.low[j] = x.low[j] * scale * (of.gain_offset + gammas.low[j]);
    x.high[j] = x.high[j] * scale * (of.gain_offset + gammas.high[j]);
  }
  TurnPairs<false>(angles.low, angles.high, x.low, x.high);
  StoreHead<kWhole>(x, i, pairs, of.y + index * width);
}

template <class T>
struct HeadNormGradient {
  RopeShape shape;
  float gain_offset;
  const T* dy;
  const T* x;
  const float* gamma;
  const float* rrms;
  const float* table;
  const int32_t* starts;
  T* dx;
  float* parts;  // [blocks, width]: each block's dgamma
};

// With n = x rrms and g = dn gain, where dn is dy turned back: dx = rrms (g - n mean(g n)). The
// sums over rows are in registers: over the heads that a group of lanes has, in their order, then
// over the groups of the block, which has `each` heads.
template <bool kWhole, class T>
__global__ void __launch_bounds__(kHeadThreads)
    HeadNormBackwardKernel(int shift, int64_t each,
                           const __grid_constant__ HeadNormGradient<T> to) {
  const int groups = kHeadThreads >> shift;
  const int64_t width = to.shape.width, pairs = width / 2;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * each;
  const int64_t all = to.shape.rows * to.shape.heads;
  const int64_t end = begin + each < all ? begin + each : all;
  const int group = static_cast<int>(threadIdx.x) >> shift;
  const int i = (static_cast<int>(threadIdx.x) - (group << shift)) * kPart;
  HeadPart dgamma, gains;
  if (i < pairs) LoadHead<kWhole>(to.gamma, i, pairs, &gains);
#pragma unroll
  for (int j = 0; j < kPart; ++j) {
    gains.low[j] += to.gain_offset;
    gains.high[j] += to.gain_offset;
  }
  for (int64_t first = begin; first < end; first += groups) {
    const int64_t index = first + group;
    const bool present = index < end && i < pairs;
    HeadPart grads, normal, angles;
    float scale = 0;
    if (present) {
      LoadHead<kWhole>(to.dy + index * width, i, pairs, &grads);
      LoadHead<kWhole>(to.x + index * width, i, pairs, &normal);
      LoadAngles<kWhole>(to.shape, to.table, to.starts, index, i, &angles);
      scale = to.rrms[index];
    }
    TurnPairs<true>(angles.low, angles.high, grads.low, grads.high);
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      normal.low[j] *= scale;
      normal.high[j] *= scale;
      dgamma.low[j] = fmaf(grads.low[j], normal.low[j], dgamma.low[j]);
      dgamma.high[j] = fmaf(grads.high[j], normal.high[j], dgamma.high[j]);
      grads.low[j] *= gains.low[j];
      grads.high[j] *= gains.high[j];
      sum = fmaf(grads.low[j], normal.low[j], sum);
      sum = fmaf(grads.high[j], normal.high[j], sum);
    }
    const float mean = HeadSum(shift, sum) / static_cast<float>(width);
    if (!present) continue;
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      grads.low[j] = scale * fmaf(-normal.low[j], mean, grads.low[j]);
      grads.high[j] = scale * fmaf(-normal.high[j], mean, grads.high[j]);
    }
    StoreHead<kWhole>(grads, i, pairs, to.dx + index * width);
  }

  // [half][group][value of the half], the last two in one
  __shared__ float4 of_groups[2][kHeadThreads * kPart / kFloatPart];
  const int padded = kPart << shift;
  StoreAligned(dgamma.low, reinterpret_cast<float*>(of_groups[0]) + group * padded + i);
  StoreAligned(dgamma.high, reinterpret_cast<float*>(of_groups[1]) + group * padded + i);
  __syncthreads();
  for (int64_t column = threadIdx.x; column < width; column += kHeadThreads) {
    const bool high = column >= pairs;
    const float* const sums =
        reinterpret_cast<const float*>(of_groups[high ? 1 : 0]) + (high ? column - pairs : column);
    float total = 0;
    for (int g = 0; g < groups; ++g) total += sums[g * padded];
    to.parts[static_cast<int64_t>(blockIdx.x) * width + column] = total;
  }
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_HEAD_NORM_CUH_
