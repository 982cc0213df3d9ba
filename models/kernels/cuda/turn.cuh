#ifndef SLUICE_MODELS_KERNELS_CUDA_TURN_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_TURN_CUH_

#include "models/kernels/cuda/vector.cuh"
#include "models/kernels/kernels.h"

// The turn of heads by their positions, which rope.cuh does in place and head_norm.cuh behind a norm.
namespace sluice::cuda {

// Of a row within its document.
__device__ inline int64_t PositionOf(const RopeShape& shape, const int32_t* starts, int64_t row) {
  return row % shape.seq - (starts == nullptr ? 0 : starts[row]);
}

// Turns kPart pairs of values, of the low and of the high half of a head.
template <bool kInverse>
__device__ inline void TurnPairs(const float (&cosines)[kPart], const float (&sines)[kPart],
                                 float (&low)[kPart], float (&high)[kPart]) {
#pragma unroll
  for (int j = 0; j < kPart; ++j) {
    const float sine = kInverse ? -sines[j] : sines[j];
    const float turned = fmaf(-high[j], sine, low[j] * cosines[j]);
    high[j] = fmaf(low[j], sine, high[j] * cosines[j]);
    low[j] = turned;
  }
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_TURN_CUH_
