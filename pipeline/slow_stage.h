#ifndef SLUICE_PIPELINE_SLOW_STAGE_H_
#define SLUICE_PIPELINE_SLOW_STAGE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "schedules/simulate.h"

namespace sluice {

// A stage that has become slow: its machine is busy with something else, hot or failing.
struct SlowStage {
  int64_t step = 0;
  int stage = 0;
  int rank = 0;       // of the pipeline
  double factor = 0;  // how much longer than before, where its neighbours take `others`
  double others = 1;
};

// Notices a stage that takes twice as long as it used to while the others do not: what everybody
// waits for. A step is compared with the stage's own history, since stages are never equal; medians
// of some steps are taken, since one step may be slow for any reason.
class SlowStageWatch {
 public:
  // `ranks`: [stage] its rank.
  explicit SlowStageWatch(std::vector<int> ranks);

  // `costs`: mean seconds of the step's actions, by (op, stage). Returns the slowest stage that has
  // just become slow; it is not named again until it has been as quick as before.
  std::optional<SlowStage> Observe(int64_t step, const StageCosts& costs);

 private:
  double Factor(size_t stage) const;

  const std::vector<int> ranks_;
  std::vector<std::deque<double>> recent_;  // [stage] seconds of a micro-batch, newest last
  std::vector<std::vector<double>> usual_;  // [stage] of the steps before, while it was not slow
  std::vector<bool> slow_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_SLOW_STAGE_H_
