#ifndef SLUICE_TOOLS_TRAIN_RUNNING_REPLAN_WATCH_H_
#define SLUICE_TOOLS_TRAIN_RUNNING_REPLAN_WATCH_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "models/data/dataset.h"
#include "pipeline/compile/plan/run_plan.h"
#include "pipeline/train/run.h"
#include "tools/train/replanning/measured_speeds.h"
#include "tools/train/replanning/replanner.h"
#include "tools/train/running/run_output.h"
#include "tools/train/train_question.h"

namespace sluice {

// Has rank 0 look for a better plan while its group trains, and say what came of the last one.
class ReplanWatch {
 public:
  // Asks the other ranks to go over to a plan after this step; false where they cannot be asked.
  using Ask = std::function<bool(const Replan&)>;

  // Requires MayReplan(question); it must outlive this. `data`: of the run.
  ReplanWatch(const TrainQuestion& question, std::shared_ptr<const Dataset> data,
              RankNumbers numbers, Ask ask)
      : replanner_(question, std::move(data), numbers),
        probes_links_(!question.kernels.cuda),
        ask_(std::move(ask)) {}

  // A group of `processes` begins, whose `plan` was compiled for `speeds`. `output` must outlive what
  // is added to `events`.
  void Begin(std::shared_ptr<const RunPlan> plan, int processes, const MeasuredSpeeds& speeds,
             RunOutput* output, TrainEvents* events);
  // The ranks could not go over to what was asked for last.
  void Refused();

  // What the present group's plan comes from; nothing where this watch did not ask for it.
  const std::optional<Replan>& made() const { return made_; }

 private:
  Replanner replanner_;
  const bool probes_links_;
  const Ask ask_;
  std::optional<Replan> asked_;
  std::optional<Replan> made_;
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_RUNNING_REPLAN_WATCH_H_
