#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda/hash.cuh"
#include "models/kernels/cuda/launch.h"

namespace sluice::cuda {

void Hash(Stream stream, absl::Span<const HashedTensor> tensors, uint64_t* parts,
          uint64_t* hashes) {
  for (size_t next = 0; next < tensors.size(); next += kListedHashes) {
    HashList list = {};
    int32_t blocks = 0;
    for (const HashedTensor& tensor : tensors.subspan(next, kListedHashes)) {
      list.tensors[list.count] = tensor;
      blocks += static_cast<int32_t>(HashBlocks(tensor.bytes));
      list.first_block[++list.count] = blocks;
    }
    Launch("hash", stream, static_cast<unsigned>(blocks), kHashThreads, HashPartsKernel, list,
           parts + next * kHashParts);
    Launch("hash", stream, 1, kListedHashes, HashKernel, list, parts + next * kHashParts,
           hashes + next);
  }
}

}  // namespace sluice::cuda
