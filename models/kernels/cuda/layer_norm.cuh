#ifndef SLUICE_MODELS_KERNELS_CUDA_LAYER_NORM_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_LAYER_NORM_CUH_

#include "models/kernels/cuda/vector.cuh"

// A warp takes a row. Passes after the first find it in the L1 cache.
namespace sluice::cuda {

constexpr int kNormWarps = 4;
constexpr int kNormThreads = kNormWarps * kWarp;

// kWhole, here and below: all tensors are aligned to 16 bytes and dim is a multiple of kPart.
template <bool kWhole, class T>
__global__ void __launch_bounds__(kNormThreads)
    LayerNormForwardKernel(int64_t rows, int64_t dim, float epsilon, const T* x, const float* gamma,
                           const float* beta, T* y, float* mean, float* rstd) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kNormWarps + threadIdx.x / kWarp;
  if (row >= rows) return;
  const int lane = threadIdx.x % kWarp;
  const int64_t start = lane * kPart;
  const T* const from = x + row * dim;
  const float count = static_cast<float>(dim);
  float values[kPart];

  float sum = 0;
#pragma unroll 4
  for (int64_t i = start; i < dim; i += kWarpPart) {
    LoadPart<kWhole>(from, i, dim, 0.0f, values);
#pragma unroll
    for (int j = 0; j < kPart; ++j) sum += values[j];
  }
  const float center = WarpSum(sum) / count;

  // Around the mean, in a second pass: exact where mean^2 >> variance.
  float squares = 0;
#pragma unroll 4
  for (int64_t i = start; i < dim; i += kWarpPart) {
    LoadPart<kWhole>(from, i, dim, center, values);
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      const float off = values[j] - center;
      squares = fmaf(off, off, squares);
    }
  }
  const float scale = 1.0f / sqrtf(WarpSum(squares) / count + epsilon);
  if (lane == 0) {
    mean[row] = center;
    rstd[row] = scale;
  }

  float gammas[kPart], betas[kPart];
  for (int64_t i = start; i < dim; i += kWarpPart) {
    LoadPart<kWhole>(from, i, dim, 0.0f, values);
    LoadPart<kWhole>(gamma, i, dim, 0.0f, gammas);
    LoadPart<kWhole>(beta, i, dim, 0.0f, betas);
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      values[j] = fmaf((values[j] - center) * scale, gammas[j], betas[j]);
    }
    StorePart<kWhole>(values, i, dim, y + row * dim);
  }
}

template <class T>
struct NormGradient {
  const T* dy;
  const T* x;
  const float* gamma;
  const float* mean;
  const float* rstd;
  const T* residual_grad;  // may be null, or dx
  T* dx;
  float* parts;  // [blocks, 2, dim]: each block's dgamma, dbeta
};

// With n = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - n mean(g n)).
template <bool kWhole, class T>
__device__ inline void LayerNormBackwardRow(const NormGradient<T>& to, int64_t row, int64_t dim) {
  const int64_t start = threadIdx.x % kWarp * kPart;
  const T* const dy = to.dy + row * dim;
  const T* const x = to.x + row * dim;
  const float center = to.mean[row], scale = to.rstd[row];
  float grads[kPart], normal[kPart], gammas[kPart];
  float sum_g = 0, sum_gn = 0;
#pragma unroll 2
  for (int64_t i = start; i < dim; i += kWarpPart) {
    LoadPart<kWhole>(dy, i, dim, 0.0f, grads);  // zero past the end, and so is all that follows
    LoadPart<kWhole>(x, i, dim, 0.0f, normal);
    LoadPart<kWhole>(to.gamma, i, dim, 0.0f, gammas);
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      const float g = grads[j] * gammas[j];
      sum_g += g;
      sum_gn = fmaf(g, (normal[j] - center) * scale, sum_gn);
    }
  }
  const float mean_g = WarpSum(sum_g) / static_cast<float>(dim);
  const float mean_gn = WarpSum(sum_gn) / static_cast<float>(dim);
  for (int64_t i = start; i < dim; i += kWarpPart) {
    LoadPart<kWhole>(dy, i, dim, 0.0f, grads);
    LoadPart<kWhole>(x, i, dim, 0.0f, normal);
    LoadPart<kWhole>(to.gamma, i, dim, 0.0f, gammas);
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      const float n = (normal[j] - center) * scale;
      grads[j] = scale * fmaf(-n, mean_gn, fmaf(grads[j], gammas[j], -mean_g));
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
template <bool kWhole, class T>
__device__ inline void LayerNormBackwardColumns(const NormGradient<T>& to, int64_t first,
                                                int64_t end, int64_t column, int64_t dim) {
  float dgamma[kPart] = {}, dbeta[kPart] = {};
  float grads[kPart], normal[kPart];
#pragma unroll 4
  for (int64_t row = first; row < end; ++row) {
    LoadPart<kWhole>(to.dy + row * dim, column, dim, 0.0f, grads);
    LoadPart<kWhole>(to.x + row * dim, column, dim, 0.0f, normal);
    const float center = to.mean[row], scale = to.rstd[row];
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      dgamma[j] = fmaf(grads[j], (normal[j] - center) * scale, dgamma[j]);
      dbeta[j] += grads[j];
    }
  }
  float* const parts = to.parts + static_cast<int64_t>(blockIdx.x) * 2 * dim;
  StorePart<kWhole>(dgamma, column, dim, parts);
  StorePart<kWhole>(dbeta, column, dim, parts + dim);
}

// A block takes `each` rows, twice: once along the rows, for dx, once down the columns, for its
// part of dgamma and dbeta. The second time it finds them in the caches.
template <bool kWhole, class T>
__global__ void __launch_bounds__(kNormThreads)
    LayerNormBackwardKernel(int64_t rows, int64_t each, int64_t dim, NormGradient<T> to) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * each;
  const int64_t end = first + each < rows ? first + each : rows;
  for (int64_t row = first + threadIdx.x / kWarp; row < end; row += kNormWarps) {
    LayerNormBackwardRow<kWhole>(to, row, dim);
  }
  for (int64_t column = threadIdx.x * kPart; column < dim; column += kNormThreads * kPart) {
    LayerNormBackwardColumns<kWhole>(to, first, end, column, dim);
  }
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_LAYER_NORM_CUH_
