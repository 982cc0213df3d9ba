#ifndef SLUICE_MODELS_KERNELS_CUDA_TENSOR_LISTS_H_
#define SLUICE_MODELS_KERNELS_CUDA_TENSOR_LISTS_H_

#include <cstdint>
#include <iterator>

#include "absl/types/span.h"
#include "models/kernels/cuda/launch.h"

namespace sluice::cuda {

// Many tensors in few launches: calls launch(list, blocks, aligned) for as many tensors at a time as
// a List has room for, those without values left out. A block has `block_values` of one tensor, which
// ListedTensor (vector.cuh) finds. put(tensor, t, &list) writes what the List has beside n and
// first_block, and says whether the tensor is aligned.
template <class List, class Tensor, class Put, class LaunchList>
void ForLists(absl::Span<const Tensor> tensors, int64_t block_values, const Put& put,
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
    if (tensor.n == 0) continue;
    if (list.count == static_cast<int>(std::size(list.n))) finish();
    const int t = list.count++;
    list.n[t] = tensor.n;
    list.first_block[t] = blocks;
    blocks += Blocks(tensor.n, block_values);
    aligned = put(tensor, t, &list) && aligned;
  }
  finish();
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_TENSOR_LISTS_H_
