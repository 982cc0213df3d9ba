#ifndef SLUICE_PIPELINE_RECOVER_STATE_RANGES_H_
#define SLUICE_PIPELINE_RECOVER_STATE_RANGES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "pipeline/state/rank_state.h"
#include "pipeline/state/state_gather.h"

namespace sluice {

// Elements of one tensor of a run's state.
struct StateRange {
  // Canonical index; of a tied parameter that of the one that it equals, so that whoever holds
  // either holds both.
  int parameter = 0;
  StateKind kind = StateKind::kWeight;
  // Of a parameter that is not trained: it can also come from where the run began.
  bool frozen = false;
  int64_t first = 0;  // elements first .. first + count - 1
  int64_t count = 0;

  friend bool operator==(const StateRange&, const StateRange&) = default;
};

// [canonical index]: the parameter that it is tied to, or itself.
std::vector<int> StoredIndices(const RunPlan& plan);

// What a rank knows exactly; with `mirror` also of the rank that it mirrors. Of split weights, whose
// low halves replicas divide among themselves (ZeRO), only its slice.
std::vector<StateRange> RangesHeld(const RankState& state, bool mirror);
// What a rank must be given to compute.
std::vector<StateRange> RangesNeeded(const RankState& state);

// Brings the ranges of all ranks to all: [rank].
absl::StatusOr<std::vector<std::vector<StateRange>>> GatherRanges(
    const std::vector<StateRange>& mine, Communicator& world, absl::Duration timeout);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RECOVER_STATE_RANGES_H_
