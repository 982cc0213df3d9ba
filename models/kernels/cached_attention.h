#ifndef SLUICE_MODELS_KERNELS_CACHED_ATTENTION_H_
#define SLUICE_MODELS_KERNELS_CACHED_ATTENTION_H_

#include <cstdint>

#include "models/kernels/kernels.h"

namespace sluice {

// A sequence's cache of keys and values with room for `positions` tokens, of the shape's type: for
// each key/value head [positions, width] keys, then all values in the same order.
inline int64_t CacheElements(const AttentionShape& shape, int64_t positions) {
  return 2 * shape.kv_heads * shape.width * positions;
}

}  // namespace sluice

#endif  // SLUICE_MODELS_KERNELS_CACHED_ATTENTION_H_
