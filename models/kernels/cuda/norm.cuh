#ifndef SLUICE_MODELS_KERNELS_CUDA_NORM_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_NORM_CUH_

#include "models/kernels/cuda/vector.cuh"

// Layer norm, and RMS norm, which is layer norm around 0 and without beta: kCentered, here and
// below, is true for layer norm. One warp per row. A row that fits is read once, into registers
// (kParts); another is read again from the caches (kWhole). Both add in the same order.
namespace sluice::cuda {

constexpr int kNormThreads = kNormWarps * kWarp;

// Parts of a row that a lane holds in registers, at most: what a thread's 255 have room for, which
// in a backward pass are parts of three tensors and of the sums down the columns.
constexpr int kForwardParts = 8;
template <bool kCentered, class T>
constexpr int kBackwardParts = sizeof(T) == sizeof(float) ? 4
                               : kCentered                ? 7
                                                          : 8;

// Whether a lane reads the residual's gradient together with the rest of a row, and holds it. For
// sm_100 the compiler pairs operations and needs more registers: there it is read at its use.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr bool kHoldsResidual = false;
#else
constexpr bool kHoldsResidual = true;
#endif

// Calls body(k, first) for a lane's parts of a row that has kParts * kWarpPart values or up to
// kWarpPart fewer, so that only the last part may lie past its end. A part never does so halfway.
template <int kParts, class Body>
__device__ inline void ForRowParts(int64_t dim, const Body& body) {
  const int start = static_cast<int>(threadIdx.x % kWarp) * kPart;
#pragma unroll
  for (int k = 0; k < kParts; ++k) {
    const int first = start + k * kWarpPart;
    if (k + 1 < kParts || first < dim) body(k, first);
  }
}

template <bool kCentered>
__device__ inline float Off(float x, float center) {
  if constexpr (kCentered) {
    return x - center;
  } else {
    return x;
  }
}

template <bool kCentered>
__device__ inline void AddSquares(const float (&x)[kPart], float center, float* squares) {
#pragma unroll
  for (int j = 0; j < kPart; ++j) {
    const float off = Off<kCentered>(x[j], center);
    *squares = fmaf(off, off, *squares);
  }
}

__device__ inline float Scale(float squares, int64_t dim, float epsilon) {
  return 1.0f / sqrtf(WarpSum(squares) / static_cast<float>(dim) + epsilon);
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
__device__ inline float RowScale(const T* x, int64_t start, int64_t dim, float center,
                                 float epsilon) {
  float values[kPart];
  float squares = 0;
#pragma unroll 4
  for (int64_t i = start; i < dim; i += kWarpPart) {
    LoadPart<kWhole>(x, i, dim, center, values);
    AddSquares<kCentered>(values, center, &squares);
  }
  return Scale(squares, dim, epsilon);
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

template <bool kCentered, class T>
__device__ inline void StoreStatistics(const NormTensors<T>& of, int64_t row, float center,
                                       float scale) {
  if (threadIdx.x % kWarp != 0) return;
  if constexpr (kCentered) of.mean[row] = center;
  of.rstd[row] = scale;
}

// x becomes y. added: beta, or the residual if there is one.
template <bool kCentered, class T>
__device__ inline void NormForwardPart(const NormTensors<T>& of, float center, float scale,
                                       const float (&gammas)[kPart], bool adds,
                                       const float (&added)[kPart], float (&x)[kPart]) {
#pragma unroll
  for (int j = 0; j < kPart; ++j) {
    const float normal = Off<kCentered>(x[j], center) * scale;
    const float gain = Gain<kCentered>(gammas[j], of.gain_offset);
    x[j] = adds ? fmaf(normal, gain, added[j]) : normal * gain;
  }
}

// kWhole, here and below: all tensors are aligned to 16 bytes and dim is a multiple of kPart.
template <bool kCentered, bool kWhole, class T>
__global__ void __launch_bounds__(kNormThreads)
    NormForwardKernel(int64_t rows, int64_t dim, float epsilon, NormTensors<T> of) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kNormWarps + threadIdx.x / kWarp;
  if (row >= rows) return;
  const int64_t start = threadIdx.x % kWarp * kPart;
  const T* const from = of.x + row * dim;
  float center = 0;
  if constexpr (kCentered) center = RowMean<kWhole>(from, start, dim);
  const float scale = RowScale<kCentered, kWhole>(from, start, dim, center, epsilon);
  StoreStatistics<kCentered>(of, row, center, scale);

  float values[kPart], gammas[kPart], added[kPart] = {};
  for (int64_t i = start; i < dim; i += kWarpPart) {
    LoadPart<kWhole>(from, i, dim, 0.0f, values);
    LoadPart<kWhole>(of.gamma, i, dim, 0.0f, gammas);
    const bool adds = kCentered || of.residual != nullptr;
    if constexpr (kCentered) {
      LoadPart<kWhole>(of.beta, i, dim, 0.0f, added);
    } else if (adds) {
      LoadPart<kWhole>(of.residual + row * dim, i, dim, 0.0f, added);
    }
    NormForwardPart<kCentered>(of, center, scale, gammas, adds, added, values);
    StorePart<kWhole>(values, i, dim, of.y + row * dim);
  }
}

// The same where the tensors are aligned and dim is a multiple of kPart in kParts parts: all that
// is read of a row is under way at once.
template <bool kCentered, int kParts, class T>
__global__ void __launch_bounds__(kNormThreads)
    NormForwardOnceKernel(int64_t rows, int64_t dim, float epsilon, NormTensors<T> of) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kNormWarps + threadIdx.x / kWarp;
  if (row >= rows) return;
  Packed<T> x[kParts] = {}, residual[kParts] = {};
  ForRowParts<kParts>(dim, [&](int k, int i) { x[k] = LoadPacked(of.x + row * dim + i); });
  const bool adds = kCentered || of.residual != nullptr;
  if (!kCentered && adds) {
    ForRowParts<kParts>(
        dim, [&](int k, int i) { residual[k] = LoadPacked(of.residual + row * dim + i); });
  }
  float values[kPart];
  float center = 0;
  if constexpr (kCentered) {
    float sum = 0;
    ForRowParts<kParts>(dim, [&](int k, int) {
      Unpack(x[k], values);
#pragma unroll
      for (int j = 0; j < kPart; ++j) sum += values[j];
    });
    center = WarpSum(sum) / static_cast<float>(dim);
  }
  float squares = 0;
  ForRowParts<kParts>(dim, [&](int k, int) {
    Unpack(x[k], values);
    AddSquares<kCentered>(values, center, &squares);
  });
  const float scale = Scale(squares, dim, epsilon);
  StoreStatistics<kCentered>(of, row, center, scale);

  float gammas[kPart], added[kPart];
  ForRowParts<kParts>(dim, [&](int k, int i) {
    Unpack(x[k], values);
    LoadAligned(of.gamma + i, gammas);
    if constexpr (kCentered) {
      LoadAligned(of.beta + i, added);
    } else {
      Unpack(residual[k], added);
    }
    NormForwardPart<kCentered>(of, center, scale, gammas, adds, added, values);
    StoreAligned(values, of.y + row * dim + i);
  });
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
template <bool kCentered>
__device__ inline void Normalize(float center, float scale, float (&x)[kPart]) {
#pragma unroll
  for (int j = 0; j < kPart; ++j) x[j] = Off<kCentered>(x[j], center) * scale;
}

// The sums over a row of g and of g n.
struct RowSums {
  float g = 0, gn = 0;
};

template <bool kCentered>
__device__ inline void AddToRow(const float (&grads)[kPart], const float (&normal)[kPart],
                                const float (&gammas)[kPart], float offset, RowSums* sums) {
#pragma unroll
  for (int j = 0; j < kPart; ++j) {
    const float g = grads[j] * Gain<kCentered>(gammas[j], offset);
    if constexpr (kCentered) sums->g += g;
    sums->gn = fmaf(g, normal[j], sums->gn);
  }
}

// Sums become means.
template <bool kCentered>
__device__ inline void FinishRow(int64_t dim, RowSums* sums) {
  if constexpr (kCentered) sums->g = WarpSum(sums->g) / static_cast<float>(dim);
  sums->gn = WarpSum(sums->gn) / static_cast<float>(dim);
}

// dy becomes dx, without the residual's gradient.
template <bool kCentered>
__device__ inline void NormBackwardPart(const float (&normal)[kPart], const float (&gammas)[kPart],
                                        float offset, float scale, const RowSums& means,
                                        float (&grads)[kPart]) {
#pragma unroll
  for (int j = 0; j < kPart; ++j) {
    const float gain = Gain<kCentered>(gammas[j], offset);
    // An RMS norm's -mean(g) is -0, which adds nothing to any product.
    grads[j] = scale * fmaf(-normal[j], means.gn, fmaf(grads[j], gain, -means.g));
  }
}

template <bool kCentered>
__device__ inline void AddToColumns(const float (&grads)[kPart], const float (&normal)[kPart],
                                    float (&dgamma)[kPart], float (&dbeta)[kPart]) {
#pragma unroll
  for (int j = 0; j < kPart; ++j) {
    dgamma[j] = fmaf(grads[j], normal[j], dgamma[j]);
    if constexpr (kCentered) dbeta[j] += grads[j];
  }
}

template <bool kCentered, bool kWhole, class T>
__device__ inline void NormBackwardRow(const NormGradient<T>& to, int64_t row, int64_t dim) {
  const int64_t start = threadIdx.x % kWarp * kPart;
  const T* const dy = to.dy + row * dim;
  const T* const x = to.x + row * dim;
  const float center = CenterOf<kCentered>(to, row), scale = to.rstd[row];
  float grads[kPart], normal[kPart], gammas[kPart];
  RowSums sums;
#pragma unroll 2
  for (int64_t i = start; i < dim; i += kWarpPart) {
    LoadPart<kWhole>(dy, i, dim, 0.0f, grads);  // zero past the end, and so is all that follows
    LoadPart<kWhole>(x, i, dim, 0.0f, normal);
    LoadPart<kWhole>(to.gamma, i, dim, 0.0f, gammas);
    Normalize<kCentered>(center, scale, normal);
    AddToRow<kCentered>(grads, normal, gammas, to.gain_offset, &sums);
  }
  FinishRow<kCentered>(dim, &sums);
  for (int64_t i = start; i < dim; i += kWarpPart) {
    LoadPart<kWhole>(dy, i, dim, 0.0f, grads);
    LoadPart<kWhole>(x, i, dim, 0.0f, normal);
    LoadPart<kWhole>(to.gamma, i, dim, 0.0f, gammas);
    Normalize<kCentered>(center, scale, normal);
    NormBackwardPart<kCentered>(normal, gammas, to.gain_offset, scale, sums, grads);
    if (to.residual_grad != nullptr) {
      LoadPart<kWhole>(to.residual_grad + row * dim, i, dim, 0.0f, normal);
#pragma unroll
      for (int j = 0; j < kPart; ++j) grads[j] += normal[j];
    }
    StorePart<kWhole>(grads, i, dim, to.dx + row * dim);
  }
}

// dgamma and dbeta of kPart columns from `column`, over rows [first, end): over the rows that one
// warp has, in their order, then over the warps.
template <bool kCentered, bool kWhole, class T>
__device__ inline void NormBackwardColumns(const NormGradient<T>& to, int64_t first, int64_t end,
                                           int64_t column, int64_t dim) {
  float dgamma[kPart] = {}, dbeta[kPart] = {};
  float grads[kPart], normal[kPart];
  for (int warp = 0; warp < kNormWarps; ++warp) {
    float of_gamma[kPart] = {}, of_beta[kPart] = {};
#pragma unroll 2
    for (int64_t row = first + warp; row < end; row += kNormWarps) {
      LoadPart<kWhole>(to.dy + row * dim, column, dim, 0.0f, grads);
      LoadPart<kWhole>(to.x + row * dim, column, dim, 0.0f, normal);
      Normalize<kCentered>(CenterOf<kCentered>(to, row), to.rstd[row], normal);
      AddToColumns<kCentered>(grads, normal, of_gamma, of_beta);
    }
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      dgamma[j] += of_gamma[j];
      if constexpr (kCentered) dbeta[j] += of_beta[j];
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

// The same where the tensors are aligned and dim is a multiple of kPart in kParts parts, in one
// pass: a row is read once, all of it at the same time, and each lane keeps the sums down its
// columns.
template <bool kCentered, int kParts, class T>
__global__ void __launch_bounds__(
    kNormThreads, BackwardBlocks(kParts* static_cast<int>(sizeof(T) / sizeof(BFloat16))))
    NormBackwardOnceKernel(int64_t rows, int64_t each, int64_t dim, NormGradient<T> to) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * each;
  const int64_t end = begin + each < rows ? begin + each : rows;
  float dgamma[kParts][kPart] = {}, dbeta[kParts][kPart] = {};
  const bool adds = to.residual_grad != nullptr;
  // Where there is none, dy once more: with a branch these loads would wait for the others.
  const T* const added = adds ? to.residual_grad : to.dy;
  const int count = static_cast<int>(end - begin);
  for (int r = warp; r < count; r += kNormWarps) {
    Packed<T> dy[kParts] = {}, x[kParts] = {}, residual[kParts] = {};
    const int64_t row = begin + r, at = row * dim;
    ForRowParts<kParts>(dim, [&](int k, int i) {
      dy[k] = LoadPacked(to.dy + at + i);
      x[k] = LoadPacked(to.x + at + i);
      if constexpr (kHoldsResidual) residual[k] = LoadPacked(added + at + i);
    });
    const float center = CenterOf<kCentered>(to, row), scale = to.rstd[row];
    float grads[kPart], normal[kPart], gammas[kPart];
    RowSums sums;
    ForRowParts<kParts>(dim, [&](int k, int i) {
      Unpack(dy[k], grads);
      Unpack(x[k], normal);
      LoadAligned(to.gamma + i, gammas);
      Normalize<kCentered>(center, scale, normal);
      AddToRow<kCentered>(grads, normal, gammas, to.gain_offset, &sums);
      AddToColumns<kCentered>(grads, normal, dgamma[k], dbeta[k]);
    });
    FinishRow<kCentered>(dim, &sums);
    ForRowParts<kParts>(dim, [&](int k, int i) {
      Unpack(dy[k], grads);
      Unpack(x[k], normal);
      LoadAligned(to.gamma + i, gammas);
      Normalize<kCentered>(center, scale, normal);
      NormBackwardPart<kCentered>(normal, gammas, to.gain_offset, scale, sums, grads);
      if (adds) {
        Unpack(kHoldsResidual ? residual[k] : LoadPacked(added + at + i), normal);
#pragma unroll
        for (int j = 0; j < kPart; ++j) grads[j] += normal[j];
      }
      StoreAligned(grads, to.dx + at + i);
    });
  }

  constexpr int kSums = kNormSums<kCentered>;
  __shared__ float4 of_warps[kNormWarps][kSums][kWarpPart / kFloatPart];
  float* const parts = to.parts + static_cast<int64_t>(blockIdx.x) * kSums * dim;
#pragma unroll
  for (int k = 0; k < kParts; ++k) {
    StoreAligned(dgamma[k], reinterpret_cast<float*>(of_warps[warp][0]) + lane * kPart);
    if constexpr (kCentered) {
      StoreAligned(dbeta[k], reinterpret_cast<float*>(of_warps[warp][kSums - 1]) + lane * kPart);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kSums * kWarpPart; i += kNormThreads) {
      const int sum = i / kWarpPart, column = i % kWarpPart;
      float total = 0;
#pragma unroll
      for (int w = 0; w < kNormWarps; ++w) {
        total += reinterpret_cast<const float*>(of_warps[w][sum])[column];
      }
      const int64_t at = k * kWarpPart + column;
      if (at < dim) parts[sum * dim + at] = total;
    }
    __syncthreads();
  }
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_NORM_CUH_
