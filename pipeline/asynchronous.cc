#include "pipeline/asynchronous.h"

#include <algorithm>
#include <cmath>

#include "pipeline/gradient_norms.h"

namespace sluice {

AsynchronousUpdates::AsynchronousUpdates(RankState* state, const OptimizerOptions& options,
                                         int64_t steps)
    : plan_(state->plan()),
      state_(*state),
      options_(options),
      steps_(steps),
      parameters_(CanonicalParameters(plan_).size()),
      norms_(parameters_ * static_cast<size_t>(plan_.window_steps())) {}

void AsynchronousUpdates::Begin(int64_t step) {
  first_step_ = step;
  std::fill(norms_.begin(), norms_.end(), 0.0);
}

void AsynchronousUpdates::Apply(const StageUpdate& update, int micro_batch) {
  const RankStage& stage =
      plan_.train[static_cast<size_t>(state_.rank())].stages[static_cast<size_t>(update.stage)];
  state_.OpenSlot(update.stage, update.from, update.to);
  const int step = micro_batch / plan_.step_micro_batches();
  double squares = 0;
  for (const ParameterView& view : state_.parameters()) {
    if (view.stage != stage.stage) continue;
    const double of_view = SumOfSquares(view.gradient, view.elements);
    norms_[static_cast<size_t>(step) * parameters_ + static_cast<size_t>(view.global_index)] =
        of_view;  // the step's last update stays
    squares += of_view;
  }
  const double norm = std::sqrt(squares);
  const double scale = options_.clip > 0 && norm > options_.clip ? options_.clip / norm : 1.0;
  const double lr = LearningRate(options_, first_step_ + step + 1, steps_);
  const int64_t number = first_step_ * plan_.step_updates() + update.number + 1;
  for (const ParameterView& view : state_.parameters()) {
    if (view.stage == stage.stage) UpdateParameter(state_, view, options_, lr, scale, number);
  }
  state_.PackStage(update.stage, update.to);
}

}  // namespace sluice
