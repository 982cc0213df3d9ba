#ifndef SLUICE_MODELS_KERNELS_CUDA_NORM_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_NORM_CUH_

#include "models/kernels/cuda/vector.cuh"

// Layer norm, and RMS norm, which is layer norm around 0 and without beta: kCentered, here and
// below, is true for layer norm. One warp per row. Passes after the first read it from the L1
// cache.
namespace sluice::cuda {

constexpr int kNormWarps = 4;
constexpr int kNormThreads = kNormWarps * kWarp;

// Sums over rows that a backward pass leaves: dgamma, and dbeta of a layer norm.
template <bool kCentered>
constexpr int64_t kNormSums = kCentered ? 2 : 1;

template <bool kCentered>
__device__ inline float Off(float x, float center) {
  if constexpr (kCentered) {
    return x - center;
  } else {
    return x;
  }
}

template <bool kWhole, class T>
__device__ inline float RowMean(const T* x, int64_t start, int64_t dim) {
  float values[kPart];
  float sum = 0;
#pragma unroll 4
  for (int64_t i = start; i < dim; i += kWarpPart) {
    LoadPart<kWhole>(x, i, dim, 0.0f, values);
#pragma unroll
    for (int j = 0; j < kPart; ++j) sum += values[j];
  }
  return WarpSum(sum) / static_cast<float>(dim);
}

// The variance of a layer norm around the mean, in a second pass: exact where mean^2 >> variance.
template <bool kCentered, bool kWhole, class T>
__device__ inline float RowMeanSquare(const T* x, int64_t start, int64_t dim, float center) {
  float values[kPart];
  float squares = 0;
#pragma unroll 4
  for (int64_t i = start; i < dim; i += kWarpPart) {
    LoadPart<kWhole>(x, i, dim, center, values);
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      const float off = Off<kCentered>(values[j], center);
      squares = fmaf(off, off, squares);
    }
  }
  return WarpSum(squares) / static_cast<float>(dim);
}

// A layer norm's gain is gamma.
template <bool kCentered>
__device__ inline float Gain(float gamma, float offset) {
  if constexpr (kCentered) {
    return gamma;
  } else {
    return offset + gamma;
  }
}

template <class T>
struct NormTensors {
  const T* x;
  const float* gamma;
  const float* beta;  // of a layer norm
  float gain_offset;  // of an RMS norm
  const T* residual;  // of an RMS norm; may be null, or y
  T* y;
  float* mean;  // of a layer norm
  float* rstd;
};

// kWhole, here and below: all tensors are aligned to 16 bytes and dim is a multiple of kPart.
template <bool kCentered, bool kWhole, class T>
__global__ void __launch_bounds__(kNormThreads)
    NormForwardKernel(int64_t rows, int64_t dim, float epsilon, NormTensors<T> of) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kNormWarps + threadIdx.x / kWarp;
  if (row >= rows) return;
  const int lane = threadIdx.x % kWarp;
  const int64_t start = lane * kPart;
  const T* const from = of.x + row * dim;
  float center = 0;
  if constexpr (kCentered) center = RowMean<kWhole>(from, start, dim);
  const float scale =
      1.0f / sqrtf(RowMeanSquare<kCentered, kWhole>(from, start, dim, center) + epsilon);
  if (lane == 0) {
    if constexpr (kCentered) of.mean[row] = center;
    of.rstd[row] = scale;
  }

  float values[kPart], gammas[kPart], added[kPart];
  for (int64_t i = start; i < dim; i += kWarpPart) {
    LoadPart<kWhole>(from, i, dim, 0.0f, values);
    LoadPart<kWhole>(of.gamma, i, dim, 0.0f, gammas);
    const bool adds = kCentered || of.residual != nullptr;
    if constexpr (kCentered) {
      LoadPart<kWhole>(of.beta, i, dim, 0.0f, added);
    } else if (adds) {
      LoadPart<kWhole>(of.residual + row * dim, i, dim, 0.0f, added);
    }
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      const float normal = Off<kCentered>(values[j], center) * scale;
      const float gain = Gain<kCentered>(gammas[j], of.gain_offset);
      values[j] = adds ? fmaf(normal, gain, added[j]) : normal * gain;
    }
    StorePart<kWhole>(values, i, dim, of.y + row * dim);
  }
}

template <class T>
struct NormGradient {
  const T* dy;
  const T* x;
  const float* gamma;
  float gain_offset;  // of an RMS norm
  const float* mean;  // of a layer norm
  const float* rstd;
  const T* residual_grad;  // may be null, or dx
  T* dx;
  float* parts;  // [blocks, kNormSums, dim]: each block's dgamma, dbeta
};

template <bool kCentered, class T>
__device__ inline float CenterOf(const NormGradient<T>& to, int64_t row) {
  if constexpr (kCentered) {
    return to.mean[row];
  } else {
    return 0;
  }
}

// With n = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - n mean(g n)), where an RMS
// norm has neither the mean of x nor that of g.
template <bool kCentered, bool kWhole, class T>
__device__ inline void NormBackwardRow(const NormGradient<T>& to, int64_t row, int64_t dim) {
  const int64_t start = threadIdx.x % kWarp * kPart;
  const T* const dy = to.dy + row * dim;
  const T* const x = to.x + row * dim;
  const float center = CenterOf<kCentered>(to, row), scale = to.rstd[row];
  float grads[kPart], normal[kPart], gammas[kPart];
  float sum_g = 0, sum_gn = 0;
#pragma unroll 2
  for (int64_t i = start; i < dim; i += kWarpPart) {
    LoadPart<kWhole>(dy, i, dim, 0.0f, grads);  // zero past the end, and so is all that follows
    LoadPart<kWhole>(x, i, dim, 0.0f, normal);
    LoadPart<kWhole>(to.gamma, i, dim, 0.0f, gammas);
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      const float g = grads[j] * Gain<kCentered>(gammas[j], to.gain_offset);
      if constexpr (kCentered) sum_g += g;
      sum_gn = fmaf(g, Off<kCentered>(normal[j], center) * scale, sum_gn);
    }
  }
  float mean_g = 0;
  if constexpr (kCentered) mean_g = WarpSum(sum_g) / static_cast<float>(dim);
  const float mean_gn = WarpSum(sum_gn) / static_cast<float>(dim);
  for (int64_t i = start; i < dim; i += kWarpPart) {
    LoadPart<kWhole>(dy, i, dim, 0.0f, grads);
    LoadPart<kWhole>(x, i, dim, 0.0f, normal);
    LoadPart<kWhole>(to.gamma, i, dim, 0.0f, gammas);
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      const float n = Off<kCentered>(normal[j], center) * scale;
      const float gain = Gain<kCentered>(gammas[j], to.gain_offset);
      // An RMS norm's -mean_g is -0, which adds nothing to any product.
      grads[j] = scale * fmaf(-n, mean_gn, fmaf(grads[j], gain, -mean_g));
    }
    if (to.residual_grad != nullptr) {
      LoadPart<kWhole>(to.residual_grad + row * dim, i, dim, 0.0f, normal);
#pragma unroll
      for (int j = 0; j < kPart; ++j) grads[j] += normal[j];
    }
    StorePart<kWhole>(grads, i, dim, to.dx + row * dim);
  }
}

// dgamma and dbeta of kPart columns from `column`, over rows [first, end), in row order.
template <bool kCentered, bool kWhole, class T>
__device__ inline void NormBackwardColumns(const NormGradient<T>& to, int64_t first, int64_t end,
                                           int64_t column, int64_t dim) {
  float dgamma[kPart] = {}, dbeta[kPart] = {};
  float grads[kPart], normal[kPart];
#pragma unroll 4
  for (int64_t row = first; row < end; ++row) {
    LoadPart<kWhole>(to.dy + row * dim, column, dim, 0.0f, grads);
    LoadPart<kWhole>(to.x + row * dim, column, dim, 0.0f, normal);
    const float center = CenterOf<kCentered>(to, row), scale = to.rstd[row];
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      dgamma[j] = fmaf(grads[j], Off<kCentered>(normal[j], center) * scale, dgamma[j]);
      if constexpr (kCentered) dbeta[j] += grads[j];
    }
  }
  float* const parts = to.parts + static_cast<int64_t>(blockIdx.x) * kNormSums<kCentered> * dim;
  StorePart<kWhole>(dgamma, column, dim, parts);
  if constexpr (kCentered) StorePart<kWhole>(dbeta, column, dim, parts + dim);
}

// A block reads its `each` rows twice: once along the rows, for dx, and once down the columns, for
// its part of dgamma and dbeta. The second time they are in the caches.
template <bool kCentered, bool kWhole, class T>
__global__ void __launch_bounds__(kNormThreads)
    NormBackwardKernel(int64_t rows, int64_t each, int64_t dim, NormGradient<T> to) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * each;
  const int64_t end = first + each < rows ? first + each : rows;
  for (int64_t row = first + threadIdx.x / kWarp; row < end; row += kNormWarps) {
    NormBackwardRow<kCentered, kWhole>(to, row, dim);
  }
  for (int64_t column = threadIdx.x * kPart; column < dim; column += kNormThreads * kPart) {
    NormBackwardColumns<kCentered, kWhole>(to, first, end, column, dim);
  }
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_NORM_CUH_
