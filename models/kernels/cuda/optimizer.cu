#include <cmath>

#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda/launch.h"
#include "models/kernels/cuda/optimizer.cuh"

namespace sluice::cuda {
namespace {

template <class Update>
void LaunchList(Stream stream, const TensorList& list, unsigned blocks, bool aligned,
                const Update& update) {
  if (list.count == 0) return;
  Launch("optimizer", stream, blocks, kOptimizerThreads,
         aligned ? OptimizerKernel<true, Update> : OptimizerKernel<false, Update>, list, update);
}

// decay(tensor) is the weight decay that the update gets for that tensor.
template <class Update, class Decay>
void Apply(Stream stream, absl::Span<const OptimizerTensor> tensors, const Update& update,
           const Decay& decay) {
  TensorList list;
  list.count = 0;
  unsigned blocks = 0;
  bool aligned = true;
  for (const OptimizerTensor& tensor : tensors) {
    if (tensor.n == 0) continue;
    if (list.count == kOptimizerTensors) {
      LaunchList(stream, list, blocks, aligned, update);
      list.count = 0;
      blocks = 0;
      aligned = true;
    }
    const int t = list.count++;
    list.weight[t] = tensor.weight;
    list.low_halves[t] = tensor.low_halves;
    list.gradient[t] = tensor.gradient;
    list.moment1[t] = tensor.moment1;
    list.moment2[t] = tensor.moment2;
    list.n[t] = tensor.n;
    list.first_block[t] = blocks;
    list.decay[t] = decay(tensor);
    blocks += Blocks(tensor.n, kOptimizerValues);
    aligned = aligned && Aligned(tensor.weight, tensor.low_halves, tensor.gradient, tensor.moment1,
                                 tensor.moment2);
  }
  LaunchList(stream, list, blocks, aligned, update);
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
