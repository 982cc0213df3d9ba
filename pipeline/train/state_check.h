#ifndef SLUICE_PIPELINE_TRAIN_STATE_CHECK_H_
#define SLUICE_PIPELINE_TRAIN_STATE_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "comm/communicator.h"
#include "pipeline/state/rank_state.h"
#include "pipeline/train/run.h"

namespace sluice {

// Keeps a run from saving, or ending with, weights and optimizer state that are not finite. Every
// rank of the run has one, and all of them call the same at the same time.
class StateCheck {
 public:
  StateCheck(const RankState& state, const TrainOptions& options, Communicator* world)
      : state_(state), options_(options), world_(*world) {}

  // Looks at the state as it is after `step` steps, unless it has done so. FailedPrecondition, as
  // GiveUp makes it, names the first tensor that is not finite.
  absl::Status Check(int64_t step);
  // The same in two parts, the first for a thread in the background, whose communicator `world` is:
  // NotFinite, and what Check makes of its answer.
  absl::Status CheckAnswer(int64_t step, const std::string& not_finite);
  // The first tensor of any rank that is not finite, in words; "" where all are. The same on every
  // rank.
  absl::StatusOr<std::string> NotFinite() const { return NotFinite(world_); }
  absl::StatusOr<std::string> NotFinite(Communicator& world) const;
  // `why` the run ends after `step` good steps, and the newest good checkpoint to go on from. Never
  // OK. Rank 0 looks for the checkpoint, and ends the others, which wait for it, with what it says.
  absl::Status GiveUp(const absl::Status& why, int64_t step) const;

 private:
  const RankState& state_;
  const TrainOptions& options_;
  Communicator& world_;
  int64_t checked_step_ = -1;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_STATE_CHECK_H_
