#include "tools/train/running/replan_watch.h"

#include <utility>
#include <vector>

namespace sluice {

void ReplanWatch::Begin(std::shared_ptr<const RunPlan> plan, int processes,
                        const MeasuredSpeeds& speeds, RunOutput* output, TrainEvents* events) {
  const bool is_made = asked_.has_value() && asked_->speeds == speeds;
  made_ = is_made ? std::exchange(asked_, std::nullopt) : std::nullopt;
  asked_.reset();
  replanner_.Begin(std::move(plan), processes, speeds, made_);
  events->on_stage_times = [this, output](const StageTimes& times) {
    std::optional<Replan> replan = replanner_.Observe(times);
    if (const std::optional<ReplanGain> gain = replanner_.TakeGain()) output->Gained(*gain);
    if (replan.has_value() && ask_(*replan)) asked_ = std::move(replan);
  };
  // What ranks send each other for the measurement does not go the way of a GPU's tensors.
  if (!probes_links_) return;
  events->wants_links = [this] { return replanner_.WantsLinks(); };
  events->on_links = [this](const std::vector<MeasuredLink>& links) {
    replanner_.TakeLinks(links);
  };
}

void ReplanWatch::Refused() {
  asked_.reset();
  replanner_.WaitLonger();
}

}  // namespace sluice
