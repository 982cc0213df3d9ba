#include "pipeline/state/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "comm/collectives/collectives.h"

namespace sluice {

namespace {

// Brings the slices that the other ranks of the group have updated.
absl::Status GatherWeights(const RankState& state, Communicator& group, absl::Duration timeout) {
  std::vector<SlicedBytes> weights;
  for (const ParameterView& view : state.parameters()) {
    if (view.decl->frozen || view.shared) continue;
    weights.push_back({.data = view.weight,
                       .bounds = state.plan().shards[static_cast<size_t>(view.global_index)],
                       .element_bytes = SizeOf(view.decl->dtype)});
  }
  return AllGatherSlices(group, weights, timeout);
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

double GradientScale(const OptimizerOptions& options, double grad_norm) {
  const bool clipped = options.clip > 0 && grad_norm > options.clip;
  return clipped ? options.clip / grad_norm : 1.0;
}

void UpdateParameters(const RankState& state, absl::Span<const ParameterView* const> parameters,
                      const OptimizerOptions& options, double lr, double grad_scale, int64_t step) {
  std::vector<OptimizerTensor> tensors;
  for (const ParameterView* view : parameters) {
    tensors.push_back(
        {.n = view->count,
         .weight = view->updated_weight(),
         .low_halves = view->low_halves.values,
         .gradient = view->gradient,
         .moment1 = view->moment1,
         .moment2 = view->moment2,
         .weight_decay = static_cast<float>(view->decl->decay ? options.weight_decay : 0.0)});
  }
  const Kernels& kernels = state.kernels();
  if (state.plan().request.optimizer == OptimizerKind::kSgd) {
    kernels.sgd(state.stream(),
                {.lr = static_cast<float>(lr),
                 .momentum = static_cast<float>(options.momentum),
                 .grad_scale = static_cast<float>(grad_scale)},
                tensors);
    return;
  }
  kernels.adamw(state.stream(),
                {.lr = static_cast<float>(lr),
                 .beta1 = static_cast<float>(options.beta1),
                 .beta2 = static_cast<float>(options.beta2),
                 .step = step,
                 .grad_scale = static_cast<float>(grad_scale)},
                tensors);
}

absl::Status UpdateWeights(RankState& state, const OptimizerOptions& options, double lr,
                           double grad_scale, int64_t step, Communicator* group,
                           absl::Duration timeout) {
  std::vector<const ParameterView*> parameters;
  for (const ParameterView& view : state.parameters()) {
    if (!view.decl->frozen && !view.shared) parameters.push_back(&view);
  }
  for (const ParameterView& view : state.mirrored()) {
    if (!view.shared) parameters.push_back(&view);
  }
  UpdateParameters(state, parameters, options, lr, grad_scale, step);
  absl::Status status =
      state.zero() >= 1 ? GatherWeights(state, *group, timeout) : absl::OkStatus();
  if (status.ok()) state.Pack();
  return status;
}

}  // namespace sluice
