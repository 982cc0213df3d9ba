#include "models/kernels/cpu/functions.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::cpu {

void Hash(Stream, absl::Span<const HashedTensor> tensors, uint64_t* /*parts*/, uint64_t* hashes) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    hashes[i] = XXH3_64bits(tensors[i].data, static_cast<size_t>(tensors[i].bytes));
  }
}

}  // namespace sluice::cpu
