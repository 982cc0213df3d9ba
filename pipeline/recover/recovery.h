#ifndef SLUICE_PIPELINE_RECOVER_RECOVERY_H_
#define SLUICE_PIPELINE_RECOVER_RECOVERY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "comm/lying_rank.h"
#include "pipeline/compile/plan/run_plan.h"
#include "pipeline/state/optimizer.h"
#include "pipeline/state/rank_state.h"
#include "schedules/weight_versions.h"

namespace sluice {

// What all ranks know of a step once they have agreed on it, before they update the weights.
struct AgreedStep {
  int64_t step = 0;
  bool known = false;  // what follows; not of the step after which a run was resumed
  double loss = 0;
  double loss_sum = 0;
  double targets = 0;
  double correct = 0;
  double grad_norm = 0;
};

// A step that ranks have taken.
struct PastStep {
  double seconds = 0;
  Staleness staleness = {};  // of its gradients; as it is where they are of the weights they change
};

// The steps of a run up to `last`, over all groups of ranks that have trained.
struct RunHistory {
  int64_t last = 0;
  std::vector<PastStep> steps;  // [step - last + size - 1]
  // The last step after which the run has saved to its directory, and evaluated, and has said so;
  // -1: none.
  int64_t saved = -1;
  int64_t evaluated = -1;
  // Of what is frozen (train/base_hash.h), as the first group has found it; "": not known.
  std::string frozen_hash = {};

  // Leaves out the steps after `step`, which are taken again, and what was done after them.
  void CutAfter(int64_t step);
};

// What a process still has of a run whose group of ranks ended before the run did. Between two
// groups it may be moved about freely.
struct HeldState {
  std::shared_ptr<const RunPlan> plan;  // that `state` is of
  std::unique_ptr<RankState> state;     // null: nothing
  bool whole = false;                   // all of `state` is of one step
  bool has_mirror = false;              // so is what it mirrors of another rank
  AgreedStep last;                      // the step whose update `state` has had; 0: none
  // The gradients of step last.step + 1 are whole, and the weights have not been touched since: where
  // another rank has agreed on that step already, this one can still make its update.
  bool has_next_gradients = false;
  int64_t shown_step = -1;     // the last step that this process has shown to people; -1: none
  OptimizerOptions optimizer;  // of that update
  int64_t steps = 0;           // of the run, in all
  RunHistory history = {};     // as far as this process knows it
  // Why its group has ended, where an audit has found who computes wrong: none of this is then to be
  // used but for the history, unless others_hold_right.
  LyingRank lie = {};
  // Not OK: this process's device is lost, so that it can train no more.
  absl::Status device = absl::OkStatus();
};

// What one process brings to a recovery, in which ranks that have changed their number or their work
// get the state that they need from those who hold it.
struct Recovery {
  HeldState* held = nullptr;
  // The state to fill, of the new group; it may be held->state itself. Asked for once what is held
  // has had the last update that it can have, so that it may be moved to make room, and only where
  // a process holds something. Empty for a process that only gives what it has.
  std::function<absl::StatusOr<RankState*>()> into = {};
  // Fills what that state holds of parameters that are not trained from where the run began.
  std::function<absl::Status()> load_frozen = {};
  absl::Duration timeout;
};

struct Recovered {
  AgreedStep last;          // the run goes on after this step
  int64_t shown_step = -1;  // the last step that a process which is still there has shown; -1: none
  bool reads_frozen = false;  // a rank of the group has called load_frozen
};

// Called by all processes of `world` together. Afterwards the state to fill has weights and
// optimizer state after the newest step that any process holds, but the layers' compute copies must
// be made again (RankState::Pack). Nothing where the processes do not hold the whole state of that
// step between them: that state is then as it was. Every process gets the same answer, and, in both
// cases, the longest history that any of them knows, and of what was done after steps the last that
// any of them knows. Where a rank fills the state that it holds,
// `held` is true of that at any time.
absl::StatusOr<std::optional<Recovered>> Recover(const Recovery& recovery, Communicator& world);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RECOVER_RECOVERY_H_
