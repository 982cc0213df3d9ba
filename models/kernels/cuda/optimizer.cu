#include <cmath>

#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda/launch.h"
#include "models/kernels/cuda/optimizer.cuh"
#include "models/kernels/cuda/tensor_lists.h"

namespace sluice::cuda {
namespace {

// decay(tensor) is the weight decay that the update gets for that tensor.
template <class Update, class Decay>
void Apply(Stream stream, absl::Span<const OptimizerTensor> tensors, const Update& update,
           const Decay& decay) {
  const auto blocks_of = [](const OptimizerTensor& tensor) {
    return Blocks(tensor.n, kOptimizerValues);
  };
  const auto put = [&](const OptimizerTensor& tensor, int t, TensorList* list) {
    list->n[t] = tensor.n;
    list->weight[t] = tensor.weight;
    list->low_halves[t] = tensor.low_halves;
    list->gradient[t] = tensor.gradient;
    list->moment1[t] = tensor.moment1;
    list->moment2[t] = tensor.moment2;
    list->decay[t] = decay(tensor);
    return Aligned(tensor.weight, tensor.low_halves, tensor.gradient, tensor.moment1,
                   tensor.moment2);
  };
  ForLists<TensorList>(
      tensors, blocks_of, put, [&](const TensorList& list, unsigned blocks, bool aligned) {
        Launch("optimizer", stream, blocks, kOptimizerThreads,
               aligned ? OptimizerKernel<true, Update> : OptimizerKernel<false, Update>, list,
               update);
      });
}

}  // namespace

void AdamW(Stream stream, const AdamWStep& step, absl::Span<const OptimizerTensor> tensors) {
  const auto count = static_cast<double>(step.step);
  const double rate =
      static_cast<double>(step.lr) / (1 - std::pow(static_cast<double>(step.beta1), count));
  const double root_scale = 1 / std::sqrt(1 - std::pow(static_cast<double>(step.beta2), count));
  const AdamWUpdate update = {.grad_scale = step.grad_scale,
                              .beta1 = step.beta1,
                              .beta2 = step.beta2,
                              .rest1 = 1.0f - step.beta1,
                              .rest2 = 1.0f - step.beta2,
                              .rate = static_cast<float>(rate),
                              .root_scale = static_cast<float>(root_scale),
                              .epsilon = step.epsilon};
  Apply(stream, tensors, update,
        [&](const OptimizerTensor& tensor) { return 1.0f - step.lr * tensor.weight_decay; });
}

void Sgd(Stream stream, const SgdStep& step, absl::Span<const OptimizerTensor> tensors) {
  const SgdUpdate update = {
      .grad_scale = step.grad_scale, .lr = step.lr, .momentum = step.momentum};
  Apply(stream, tensors, update, [](const OptimizerTensor& tensor) { return tensor.weight_decay; });
}

}  // namespace sluice::cuda
