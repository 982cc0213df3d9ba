#ifndef SLUICE_PIPELINE_RUN_SLOW_STAGE_H_
#define SLUICE_PIPELINE_RUN_SLOW_STAGE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "pipeline/compile/run_plan.h"

namespace sluice {

// A stage that has become slow: its machine is busy with something else, hot or failing.
struct SlowStage {
  int64_t step = 0;
  int stage = 0;
  int rank = 0;       // of the world, whose it is
  double factor = 0;  // how much longer than before, where its neighbours take `others`
  double others = 1;
};

// Notices a stage that takes twice as long as it used to while the others do not: what everybody
// waits for. A step is compared with the stage's own history, since stages are never equal; medians
// of some steps are taken, since one step may be slow for any reason.
class SlowStageWatch {
 public:
  // Each stage on each of its ranks: a replica may be slow alone.
  explicit SlowStageWatch(std::vector<StageOnRank> stages);

  // `seconds`: of a micro-batch's actions, [stage on a rank], in the mean over the step. Returns
  // the slowest stage that has just become slow; it is not named again until it has been as quick
  // as before.
  std::optional<SlowStage> Observe(int64_t step, const std::vector<double>& seconds);

 private:
  double Factor(size_t at) const;

  const std::vector<StageOnRank> stages_;
  std::vector<std::deque<double>>
      recent_;  // [stage on a rank] seconds of a micro-batch, newest last
  std::vector<std::vector<double>> usual_;  // likewise of the steps before, while it was not slow
  std::vector<bool> slow_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_SLOW_STAGE_H_
