#ifndef SLUICE_MODELS_KERNELS_CUDA_TENSOR_LISTS_H_
#define SLUICE_MODELS_KERNELS_CUDA_TENSOR_LISTS_H_

#include <cstdint>
#include <iterator>

#include "absl/types/span.h"
#include "models/kernels/cuda/launch.h"

namespace sluice::cuda {

// Many tensors in few launches: calls launch(list, blocks, aligned) for as many tensors at a time as
// a List has room for. blocks_of(tensor) are those of one, which ListedTensor (vector.cuh) finds;
// tensors without any are left out. put(tensor, t, &list) writes what the List has beside
// first_block, and says whether the tensor is aligned.
template <class List, class Tensor, class BlocksOf, class Put, class LaunchList>
void ForLists(absl::Span<const Tensor> tensors, const BlocksOf& blocks_of, const Put& put,
              const LaunchList& launch) {
  List list;
  list.count = 0;
  unsigned blocks = 0;
  bool aligned = true;
  const auto finish = [&] {
    if (list.count > 0) launch(list, blocks, aligned);
    list.count = 0;
    blocks = 0;
    aligned = true;
  };
  for (const Tensor& tensor : tensors) {
    const unsigned more = blocks_of(tensor);
    if (more == 0) continue;
    if (list.count == static_cast<int>(std::size(list.first_block))) finish();
    const int t = list.count++;
    list.first_block[t] = blocks;
    blocks += more;
    aligned = put(tensor, t, &list) && aligned;
  }
  finish();
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_TENSOR_LISTS_H_
