#ifndef SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_STATISTICS_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_STATISTICS_CUH_

#include <cmath>

#include "models/kernels/cuda/attention/attention_arguments.h"
#include "models/kernels/cuda/attention/attention_primitives.cuh"

namespace sluice::cuda::attention {

constexpr int kStatisticsThreads = 256;
constexpr int kLanesOfRow = 8;  // that add up one row

SLUICE_DEVICE float Widen(uint16_t x) { return WidenBFloat16(x); }
SLUICE_DEVICE float Widen(float x) { return x; }

// The products of 16 bytes of a row: its elements from `chunk` * kElements on.
template <class T>
SLUICE_DEVICE float ChunkProduct(const T* a, const T* b) {
  struct alignas(16) Elements {
    T at[16 / sizeof(T)];
  };
  const Elements x = *reinterpret_cast<const Elements*>(a);
  const Elements y = *reinterpret_cast<const Elements*>(b);
  float sum = 0;
  SLUICE_UNROLL
  for (int i = 0; i < static_cast<int>(16 / sizeof(T)); ++i) {
    sum = fmaf(Widen(x.at[i]), Widen(y.at[i]), sum);
  }
  return sum;
}

// args.statistics of kStatisticsThreads / kLanesOfRow positions of one head; kAligned: rows begin
// and end at multiples of 16 bytes. Grid: x = batch * heads, y = padded_seq over the positions.
template <class T, bool kAligned>
SLUICE_DEVICE void ComputeStatistics(const AttentionArguments& args) {
  const auto out = OutputOf<const T>(args, static_cast<const void*>(args.out), BlockX());
  const auto dout = OutputOf<const T>(args, args.dout, BlockX());
  const int row = BlockY() * (kStatisticsThreads / kLanesOfRow) + Thread() / kLanesOfRow;
  const int lane = Thread() % kLanesOfRow;
  float sum = 0;
  if (row < args.seq) {
    const T* const a = out.Row(row);
    const T* const b = dout.Row(row);
    constexpr int kStep = kAligned ? static_cast<int>(16 / sizeof(T)) : 1;
    for (int i = lane * kStep; i < args.width; i += kLanesOfRow * kStep) {
      if constexpr (kAligned) {
        sum += ChunkProduct(a + i, b + i);
      } else {
        sum = fmaf(Widen(a[i]), Widen(b[i]), sum);
      }
    }
  }
  SLUICE_UNROLL
  for (int mask = 1; mask < kLanesOfRow; mask *= 2) sum += ShuffleXor(sum, mask);
  if (lane == 0) {
    const float lse = row < args.seq ? args.lse[BlockX() * args.seq + row] : INFINITY;
    args.statistics[BlockX() * args.padded_seq() + row] = {lse * kLog2E, sum};
  }
}

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_STATISTICS_CUH_
