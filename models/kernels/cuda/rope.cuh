#ifndef SLUICE_MODELS_KERNELS_CUDA_ROPE_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ROPE_CUH_

#include "models/kernels/cuda/turn.cuh"
#include "models/kernels/cuda/vector.cuh"
#include "models/kernels/kernels.h"

namespace sluice::cuda {

constexpr int kRopeThreads = 256;
struct PairList {
  float inverse_frequencies[kListedPairs];
};

// One thread per position and pair: `count` pairs of the list, which are those from `first` of the
// table's. cosf and sinf reduce large angles exactly (Payne & Hanek 1983), as long as nvcc is not
// asked for fast ones.
__global__ void __launch_bounds__(kRopeThreads)
    RopeTableKernel(int64_t seq, int64_t pairs, int64_t first, int64_t count,
                    const __grid_constant__ PairList list, float magnitude, float* table) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kRopeThreads + threadIdx.x;
  if (at >= seq * count) return;
  const int64_t position = at / count, i = at % count;
  const float angle = static_cast<float>(position) * list.inverse_frequencies[i];
  float* const to = table + position * 2 * pairs + first + i;
  to[0] = magnitude * cosf(angle);
  to[pairs] = magnitude * sinf(angle);
}

// One thread per part of kPart pairs of a head. kWhole: tensors are aligned to 16 bytes and the
// number of pairs and the stride are multiples of kPart.
template <bool kInverse, bool kWhole, class T>
__global__ void __launch_bounds__(kRopeThreads)
    RopeKernel(const __grid_constant__ RopeShape shape, const float* table, const int32_t* starts,
               T* x) {
  const int64_t pairs = shape.width / 2;
  const int64_t parts = (pairs + kPart - 1) / kPart;  // of a head
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kRopeThreads + threadIdx.x;
  const int64_t row = at / (parts * shape.heads);
  if (row >= shape.rows) return;
  const int64_t head = at / parts % shape.heads, i = at % parts * kPart;
  const float* const angles = table + PositionOf(shape, starts, row) * shape.width;
  T* const low = x + row * shape.stride + head * shape.width;
  T* const high = low + pairs;
  float cosines[kPart], sines[kPart], a[kPart], b[kPart];
  LoadPart<kWhole>(angles, i, pairs, 0.0f, cosines);
  LoadPart<kWhole>(angles + pairs, i, pairs, 0.0f, sines);
  LoadPart<kWhole>(low, i, pairs, 0.0f, a);
  LoadPart<kWhole>(high, i, pairs, 0.0f, b);
  TurnPairs<kInverse>(cosines, sines, a, b);
  StorePart<kWhole>(a, i, pairs, low);
  StorePart<kWhole>(b, i, pairs, high);
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_ROPE_CUH_
