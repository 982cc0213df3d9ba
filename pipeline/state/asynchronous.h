#ifndef SLUICE_PIPELINE_STATE_ASYNCHRONOUS_H_
#define SLUICE_PIPELINE_STATE_ASYNCHRONOUS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "pipeline/state/gradient_norms.h"
#include "pipeline/state/optimizer.h"
#include "pipeline/state/rank_state.h"

namespace sluice {

// Changes a rank's weights while an asynchronous timetable runs: each stage on its own, as its
// gradients come, into the slot of the next version.
//
// Clipping: the global norm is not known before a flush, so each stage's gradient is clipped by the
// stage's own norm.
class AsynchronousUpdates {
 public:
  // `steps`: of the whole run, for the learning rate.
  AsynchronousUpdates(RankState* state, const OptimizerOptions& options, int64_t steps);

  // Before a pass that starts after `step` steps of the run.
  void Begin(int64_t step);
  // Applies the gradient that the rank's stage has ready after `micro_batch` of the pass.
  void Apply(const StageUpdate& update, int micro_batch);

  // Sums of squares of the gradients of each step's last update: [step of the pass][canonical
  // parameter]; 0 where this rank does not hold it.
  absl::Span<const double> norms() const { return norms_; }

 private:
  const RunPlan& plan_;
  RankState& state_;
  const OptimizerOptions options_;
  const int64_t steps_;
  const size_t parameters_;
  int64_t first_step_ = 0;
  std::vector<double> norms_;
  std::vector<std::vector<const ParameterView*>> views_;  // [stage of the rank]
  std::vector<SquareSums> squares_;                       // [stage of the rank]
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_STATE_ASYNCHRONOUS_H_
