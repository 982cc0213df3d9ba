#ifndef SLUICE_PIPELINE_TRAIN_FINITE_STATE_H_
#define SLUICE_PIPELINE_TRAIN_FINITE_STATE_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "pipeline/state/rank_state.h"
#include "pipeline/state/state_gather.h"

namespace sluice {

// A tensor that a rank keeps from step to step.
struct StateTensor {
  int parameter = 0;  // its index in the model's canonical order
  StateKind kind = StateKind::kWeight;
  int stage = 0;
  int rank = 0;  // of the world
};

// "the first moment of lm_head.weight (rank 1, stage 1)".
std::string Describe(const StateTensor& tensor, const RunPlan& plan);

// The first tensor of any rank, in canonical order, with a value that is not finite; of several
// ranks that have it, the lowest. Every rank of `world` calls this, between steps, and looks at its
// own weights and optimizer state, once, with the kernels of its device. The result is the same on
// every rank. `timeout`: for a rank to show that it is still there, however
// long it looks.
absl::StatusOr<std::optional<StateTensor>> FindNotFinite(const RankState& state,
                                                         Communicator& world,
                                                         absl::Duration timeout);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_FINITE_STATE_H_
