#ifndef SLUICE_MODELS_KERNELS_CACHED_ATTENTION_H_
#define SLUICE_MODELS_KERNELS_CACHED_ATTENTION_H_

#include <cstddef>
#include <cstdint>

#include "models/kernels/kernels.h"

namespace sluice {

// Attention of the next tokens of one sequence to themselves and to all tokens before them, whose
// keys and values lie in a cache. Of the shape, `batch` is 1 and `seq` the number of new tokens. A
// cache has room for `positions` tokens: for each key/value head [positions, width] keys, then all
// values in the same order, in the shape's type. On the CPU only: there is none on CUDA yet.
inline int64_t CacheElements(const AttentionShape& shape, int64_t positions) {
  return 2 * shape.kv_heads * shape.width * positions;
}
inline size_t CachedAttentionWorkspace(const AttentionShape& shape, int64_t positions) {
  return static_cast<size_t>(positions + 2 * shape.width) * sizeof(float);
}

// Puts keys and values of the new rows into the cache, from position `first` on, and writes
// out [seq, heads * width]; first + seq <= positions. Results do not depend on `positions`, nor on
// how many rows come in one call. in.starts is not read.
void AttendCached(const AttentionShape& shape, int64_t positions, int64_t first,
                  const AttentionInput& in, void* cache, void* out, void* workspace);

}  // namespace sluice

#endif  // SLUICE_MODELS_KERNELS_CACHED_ATTENTION_H_
