#include "pipeline/state/asynchronous.h"

#include <algorithm>
#include <cmath>

namespace sluice {

AsynchronousUpdates::AsynchronousUpdates(RankState* state, const OptimizerOptions& options,
                                         int64_t steps)
    : plan_(state->plan()),
      state_(*state),
      options_(options),
      steps_(steps),
      parameters_(CanonicalParameters(plan_).size()),
      norms_(parameters_ * static_cast<size_t>(plan_.window_steps())) {
  for (const RankStage& stage : state_.train_program().stages) {
    std::vector<const ParameterView*>& views = views_.emplace_back();
    for (const ParameterView& view : state_.parameters()) {
      if (view.stage == stage.stage && !view.decl->frozen) views.push_back(&view);
    }
    squares_.emplace_back(state, views);
  }
}

void AsynchronousUpdates::Begin(int64_t step) {
  first_step_ = step;
  std::fill(norms_.begin(), norms_.end(), 0.0);
}

void AsynchronousUpdates::Apply(const StageUpdate& update, int micro_batch) {
  const auto stage = static_cast<size_t>(update.stage);
  state_.OpenSlot(update.stage, update.from, update.to);
  const int step = micro_batch / plan_.step_micro_batches();
  // Those of the step's last update stay.
  const absl::Span<double> of_step =
      absl::MakeSpan(norms_).subspan(static_cast<size_t>(step) * parameters_, parameters_);
  for (const ParameterView* view : views_[stage])
    of_step[static_cast<size_t>(view->global_index)] = 0;
  squares_[stage].AddTo(of_step);
  double squares = 0;
  for (const ParameterView* view : views_[stage])
    squares += of_step[static_cast<size_t>(view->global_index)];
  const double norm = std::sqrt(squares);
  const double scale = options_.clip > 0 && norm > options_.clip ? options_.clip / norm : 1.0;
  const double lr = LearningRate(options_, first_step_ + step + 1, steps_);
  const int64_t number = first_step_ * plan_.step_updates() + update.number + 1;
  UpdateParameters(state_, views_[stage], options_, lr, scale, number);
  state_.PackStage(update.stage, update.to);
}

}  // namespace sluice
