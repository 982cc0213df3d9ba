#ifndef SLUICE_PIPELINE_TRAIN_SLOW_STAGE_H_
#define SLUICE_PIPELINE_TRAIN_SLOW_STAGE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "pipeline/compile/plan/run_plan.h"

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
// waits for. A stage is compared with its own history, since stages are never equal, and only what
// lasts counts, since another program may have the machine's cores for a moment: steps are taken
// together to blocks of two steps and a second at least, and the median of five blocks with that of
// the blocks before them.
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
    double sum = 0;             // of the block that is not full yet
    std::deque<double> recent;  // [block] mean seconds of a micro-batch, newest last
    std::vector<double> usual;  // likewise of the blocks before, while it was not slow
    bool slow = false;
  };
  static double Factor(const Stage& stage);
  void EndBlock();
  std::optional<SlowStage> NameSlowest(int64_t step);

  std::vector<Stage> stages_;
  // Of the block that is not full yet.
  int block_steps_ = 0;
  double block_seconds_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_SLOW_STAGE_H_
