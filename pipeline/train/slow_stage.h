#ifndef SLUICE_PIPELINE_TRAIN_SLOW_STAGE_H_
#define SLUICE_PIPELINE_TRAIN_SLOW_STAGE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "pipeline/compile/plan/run_plan.h"
#include "pipeline/train/stage_blocks.h"

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
// waits for. A stage is compared with its own history, since stages are never equal: the median of the
// recent blocks of steps with that of the blocks before them.
class SlowStageWatch {
 public:
  // Each stage on each of its ranks: a replica may be slow alone.
  explicit SlowStageWatch(const std::vector<StageOnRank>& stages);

  // `step_seconds`: of the whole step. `seconds`: of a micro-batch's actions, [stage on a rank], in
  // the mean over the step. Returns the slowest stage that has just turned out to be slow; it is
  // not named again until it has been as quick as before.
  std::optional<SlowStage> Observe(int64_t step, double step_seconds,
                                   const std::vector<double>& seconds);

 private:
  struct Stage {
    StageOnRank at;
    std::vector<double>
        usual;  // [block] mean seconds before the recent ones, while it was not slow
    bool slow = false;
  };
  double Factor(size_t stage) const;
  std::optional<SlowStage> NameSlowest(int64_t step);

  std::vector<Stage> stages_;
  StageBlocks blocks_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_SLOW_STAGE_H_
