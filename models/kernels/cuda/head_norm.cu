#include <bit>

#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda/head_norm.cuh"
#include "models/kernels/cuda/launch.h"

namespace sluice::cuda {
namespace {

// Calls body(std::bool_constant<whole>, null pointer of the element type).
template <class Body>
void DispatchHeads(const RopeShape& shape, bool aligned, const Body& body) {
  Dispatch(shape.dtype, aligned && shape.width / 2 % kPart == 0, body);
}

int Shift(int64_t width) { return std::countr_zero(static_cast<unsigned>(HeadLanes(width))); }

}  // namespace

void RmsNormRopeForward(Stream stream, const RopeShape& shape, float epsilon, float gain_offset,
                        const void* x, const float* gamma, const float* table,
                        const int32_t* starts, void* y, float* rrms) {
  const int64_t heads = shape.rows * shape.heads;
  if (heads == 0) return;
  if (!FitsHeadLanes(shape.width)) {
    RmsNormForward(stream, shape.dtype, heads, shape.width, epsilon, gain_offset, x, gamma, nullptr,
                   y, rrms);
    return Rope(stream, shape, table, starts, /*inverse=*/false, y);
  }
  DispatchHeads(shape, Aligned(x, gamma, table, y), [&](auto whole, auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const HeadNorm<T> of = {.shape = shape,
                            .epsilon = epsilon,
                            .gain_offset = gain_offset,
                            .x = static_cast<const T*>(x),
                            .gamma = gamma,
                            .table = table,
                            .starts = starts,
                            .y = static_cast<T*>(y),
                            .rrms = rrms};
    Launch("rms_norm_rope_forward", stream, Blocks(heads * HeadLanes(shape.width), kHeadThreads),
           kHeadThreads, HeadNormForwardKernel<whole.value, T>, Shift(shape.width), of);
  });
}

void RmsNormRopeBackward(Stream stream, const RopeShape& shape, float gain_offset, void* dy,
                         const void* x, const float* gamma, const float* rrms, const float* table,
                         const int32_t* starts, void* dx, float* partial, void* workspace) {
  const int64_t heads = shape.rows * shape.heads;
  if (!FitsHeadLanes(shape.width)) {
    Rope(stream, shape, table, starts, /*inverse=*/true, dy);
    return RmsNormBackward(stream, shape.dtype, heads, shape.width, gain_offset, dy, x, gamma, rrms,
                           nullptr, dx, partial, workspace);
  }
  const int64_t each = HeadBlockRows(heads, shape.width), blocks = CeilDiv(heads, each);
  auto* const parts = static_cast<float*>(workspace);
  if (heads > 0) {
    DispatchHeads(shape, Aligned(dy, x, gamma, table, dx), [&](auto whole, auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      const HeadNormGradient<T> to = {.shape = shape,
                                      .gain_offset = gain_offset,
                                      .dy = static_cast<const T*>(dy),
                                      .x = static_cast<const T*>(x),
                                      .gamma = gamma,
                                      .rrms = rrms,
                                      .table = table,
                                      .starts = starts,
                                      .dx = static_cast<T*>(dx),
                                      .parts = parts};
      Launch("rms_norm_rope_backward", stream, static_cast<unsigned>(blocks), kHeadThreads,
             HeadNormBackwardKernel<whole.value, T>, Shift(shape.width), each, to);
    });
  }
  if (partial == nullptr) return;
  const SummedParts sum = {blocks, shape.width, parts, partial};
  AddParts(stream, {&sum, 1}, /*accumulate=*/false);
}

}  // namespace sluice::cuda
