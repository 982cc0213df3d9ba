#include "models/kernels/cuda/cached_attention.cuh"
#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda/launch.h"

namespace sluice::cuda {

void AttendCached(Stream stream, const AttentionShape& shape, int64_t positions, int64_t first,
                  const AttentionInput& in, void* cache, void* out, void* workspace) {
  const CachedArguments args = {.rows = shape.seq,
                                .heads = shape.heads,
                                .kv_heads = shape.kv_heads,
                                .width = shape.width,
                                .q_stride = shape.q_stride,
                                .kv_stride = shape.kv_stride,
                                .window = shape.window,
                                .positions = positions,
                                .first = first,
                                .parts = CachedParts(positions),
                                .scale = ScoreScale(shape),
                                .soft_cap = shape.soft_cap};
  const int64_t new_values = shape.seq * shape.kv_heads * shape.width;
  const int64_t results = shape.seq * shape.heads;
  if (results == 0) return;
  const bool aligned = shape.width % kPart == 0 && Aligned(cache);
  const dim3 parts(static_cast<unsigned>(results),
                   static_cast<unsigned>(CachedParts(first + shape.seq)));
  float* const work = static_cast<float*>(workspace);
  Dispatch(shape.dtype, aligned, [&](auto is_aligned, auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    Launch("cached_append", stream, Blocks(new_values, kCombineThreads), kCombineThreads,
           CachedAppendKernel<T>, args, static_cast<const T*>(in.k), static_cast<const T*>(in.v),
           static_cast<T*>(cache));
    Launch("cached_part", stream, parts, kCachedThreads, CachedPartKernel<is_aligned.value, T>,
           args, static_cast<const T*>(in.q), static_cast<const T*>(cache), work);
    Launch("cached_combine", stream, Blocks(results * shape.width, kCombineThreads),
           kCombineThreads, CachedCombineKernel<T>, args, static_cast<const float*>(work),
           static_cast<T*>(out));
  });
}

}  // namespace sluice::cuda
