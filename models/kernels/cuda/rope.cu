#include <algorithm>

#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda/launch.h"
#include "models/kernels/cuda/rope.cuh"

namespace sluice::cuda {

void RopeTable(Stream stream, int64_t seq, int64_t pairs, const float* inverse_frequencies,
               float magnitude, float* table) {
  if (seq == 0) return;
  for (int64_t first = 0; first < pairs; first += kListedPairs) {
    const int64_t count = std::min<int64_t>(kListedPairs, pairs - first);
    PairList list = {};
    std::copy_n(inverse_frequencies + first, count, list.inverse_frequencies);
    Launch("rope_table", stream, Blocks(seq * count, kRopeThreads), kRopeThreads, RopeTableKernel,
           seq, pairs, first, count, list, magnitude, table);
  }
}

void Rope(Stream stream, const RopeShape& shape, const float* table, const int32_t* starts,
          bool inverse, void* x) {
  const int64_t pairs = shape.width / 2;
  const int64_t threads = shape.rows * shape.heads * CeilDiv(pairs, kPart);
  if (threads == 0) return;
  const bool aligned = pairs % kPart == 0 && shape.stride % kPart == 0 && Aligned(table, x);
  Dispatch(shape.dtype, aligned, [&](auto is_aligned, auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    Launch("rope", stream, Blocks(threads, kRopeThreads), kRopeThreads,
           inverse ? RopeKernel<true, is_aligned.value, T> : RopeKernel<false, is_aligned.value, T>,
           shape, table, starts, static_cast<T*>(x));
  });
}

}  // namespace sluice::cuda
