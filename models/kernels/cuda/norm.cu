#include <algorithm>

#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda/launch.h"
#include "models/kernels/cuda/norm.cuh"

namespace sluice::cuda {
namespace {

// Calls body(std::integral_constant<int, parts>) with the parts that a lane has of a row of `dim`,
// or returns false where they are more than kMost.
template <int kMost, int kParts = 1, class Body>
bool WithParts(int64_t dim, const Body& body) {
  if (dim <= int64_t{kParts} * kWarpPart) {
    body(std::integral_constant<int, kParts>());
    return true;
  }
  if constexpr (kParts < kMost) {
    return WithParts<kMost, kParts + 1>(dim, body);
  } else {
    return false;
  }
}

template <bool kCentered>
void Forward(const char* name, Stream stream, DType dtype, int64_t rows, int64_t dim, float epsilon,
             float gain_offset, const void* x, const float* gamma, const float* beta,
             const void* residual, void* y, float* mean, float* rstd) {
  if (rows == 0) return;
  const bool aligned = dim % kPart == 0 && Aligned(x, gamma, beta, residual, y);
  Dispatch(dtype, aligned, [&](auto is_aligned, auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const NormTensors<T> of = {.x = static_cast<const T*>(x),
                               .gamma = gamma,
                               .beta = beta,
                               .gain_offset = gain_offset,
                               .residual = static_cast<const T*>(residual),
                               .y = static_cast<T*>(y),
                               .mean = mean,
                               .rstd = rstd};
    const auto launch = [&](auto* kernel) {
      Launch(name, stream, Blocks(rows, kNormWarps), kNormThreads, kernel, rows, dim, epsilon, of);
    };
    if constexpr (is_aligned.value) {
      if (WithParts<kForwardParts>(
              dim, [&](auto parts) { launch(NormForwardOnceKernel<kCentered, parts.value, T>); })) {
        return;
      }
    }
    launch(NormForwardKernel<kCentered, is_aligned.value, T>);
  });
}

template <bool kCentered>
void Backward(const char* name, Stream stream, DType dtype, int64_t rows, int64_t dim,
              float gain_offset, const void* dy, const void* x, const float* gamma,
              const float* mean, const float* rstd, const void* residual_grad, void* dx,
              float* partial, void* workspace) {
  const int64_t each = NormBlockRows(rows, dim);
  const int64_t blocks = CeilDiv(rows, each);
  float* const parts = static_cast<float*>(workspace);
  const bool aligned = dim % kPart == 0 && Aligned(dy, x, gamma, residual_grad, dx, workspace);
  if (rows > 0) {
    Dispatch(dtype, aligned, [&](auto is_aligned, auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      const NormGradient<T> to = {.dy = static_cast<const T*>(dy),
                                  .x = static_cast<const T*>(x),
                                  .gamma = gamma,
                                  .gain_offset = gain_offset,
                                  .mean = mean,
                                  .rstd = rstd,
                                  .residual_grad = static_cast<const T*>(residual_grad),
                                  .dx = static_cast<T*>(dx),
                                  .parts = parts};
      const auto launch = [&](auto* kernel) {
        Launch(name, stream, static_cast<unsigned>(blocks), kNormThreads, kernel, rows, each, dim,
               to);
      };
      if constexpr (is_aligned.value) {
        if (WithParts<kBackwardParts<kCentered, T>>(dim, [&](auto parts_of_lane) {
              launch(NormBackwardOnceKernel<kCentered, parts_of_lane.value, T>);
            })) {
          return;
        }
      }
      launch(NormBackwardKernel<kCentered, is_aligned.value, T>);
    });
  }
  if (partial == nullptr) return;
  const SummedParts sum = {blocks, kNormSums<kCentered> * dim, parts, partial};
  AddParts(stream, {&sum, 1}, /*accumulate=*/false);
}

}  // namespace

void LayerNormForward(Stream stream, DType dtype, int64_t rows, int64_t dim, float epsilon,
                      const void* x, const float* gamma, const float* beta, void* y, float* mean,
                      float* rstd) {
  Forward<true>("layer_norm_forward", stream, dtype, rows, dim, epsilon, 0, x, gamma, beta, nullptr,
                y, mean, rstd);
}

void LayerNormBackward(Stream stream, DType dtype, int64_t rows, int64_t dim, const void* dy,
                       const void* x, const float* gamma, const float* mean, const float* rstd,
                       const void* residual_grad, void* dx, float* partial, void* workspace) {
  Backward<true>("layer_norm_backward", stream, dtype, rows, dim, 0, dy, x, gamma, mean, rstd,
                 residual_grad, dx, partial, workspace);
}

void RmsNormForward(Stream stream, DType dtype, int64_t rows, int64_t dim, float epsilon,
                    float gain_offset, const void* x, const float* gamma, const void* residual,
                    void* y, float* rrms) {
  Forward<false>("rms_norm_forward", stream, dtype, rows, dim, epsilon, gain_offset, x, gamma,
                 nullptr, residual, y, nullptr, rrms);
}

void RmsNormBackward(Stream stream, DType dtype, int64_t rows, int64_t dim, float gain_offset,
                     const void* dy, const void* x, const float* gamma, const float* rrms,
                     const void* residual_grad, void* dx, float* partial, void* workspace) {
  Backward<false>("rms_norm_backward", stream, dtype, rows, dim, gain_offset, dy, x, gamma, nullptr,
                  rrms, residual_grad, dx, partial, workspace);
}

}  // namespace sluice::cuda
