#include "pipeline/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "comm/collectives.h"

namespace sluice {

namespace {

// Brings the slices that the other replicas have updated.
absl::Status GatherWeights(const RankState& state, Communicator& replicas, absl::Duration timeout) {
  std::vector<SlicedBytes> weights;
  for (const ParameterView& view : state.parameters()) {
    weights.push_back({.data = view.weight,
                       .bounds = state.plan().shards[static_cast<size_t>(view.global_index)],
                       .element_bytes = static_cast<int64_t>(sizeof(float))});
  }
  return AllGatherSlices(replicas, weights, absl::Now() + timeout);
}

}  // namespace

double LearningRate(const OptimizerOptions& options, int64_t step, int64_t steps) {
  if (step <= options.warmup)
    return options.lr * static_cast<double>(step) / static_cast<double>(options.warmup);
  if (options.schedule == LrSchedule::kConstant) return options.lr;
  const int64_t span = std::max<int64_t>(steps - options.warmup, 1);
  const double done =
      std::min(1.0, static_cast<double>(step - options.warmup) / static_cast<double>(span));
  const double least = options.lr * options.final_lr_fraction;
  return least + (options.lr - least) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

void UpdateParameter(const RankState& state, const ParameterView& view,
                     const OptimizerOptions& options, double lr, double grad_scale, int64_t step) {
  const Kernels& kernels = CpuKernels();
  const double decay = view.decl->decay ? options.weight_decay : 0.0;
  float* weight = view.weight + view.first;
  if (state.plan().request.optimizer == OptimizerKind::kSgd) {
    kernels.sgd({}, static_cast<float>(lr), static_cast<float>(options.momentum),
                static_cast<float>(decay), static_cast<float>(grad_scale), view.count, weight,
                view.gradient, view.moment1);
    return;
  }
  const AdamWStep adamw{.lr = static_cast<float>(lr),
                        .beta1 = static_cast<float>(options.beta1),
                        .beta2 = static_cast<float>(options.beta2),
                        .weight_decay = static_cast<float>(decay),
                        .step = step,
                        .grad_scale = static_cast<float>(grad_scale)};
  kernels.adamw({}, adamw, view.count, weight, view.gradient, view.moment1, view.moment2);
}

absl::Status UpdateParameters(RankState& state, const OptimizerOptions& options, double lr,
                              double grad_scale, int64_t step, Communicator* replicas,
                              absl::Duration timeout) {
  for (const ParameterView& view : state.parameters())
    UpdateParameter(state, view, options, lr, grad_scale, step);
  absl::Status status =
      state.plan().zero() >= 1 ? GatherWeights(state, *replicas, timeout) : absl::OkStatus();
  if (status.ok()) state.Pack();
  return status;
}

}  // namespace sluice
