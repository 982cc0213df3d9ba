#ifndef SLUICE_PIPELINE_TRAIN_TRAINER_H_
#define SLUICE_PIPELINE_TRAIN_TRAINER_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "comm/communicator.h"
#include "models/data/dataset.h"
#include "pipeline/compile/plan/run_plan.h"
#include "pipeline/recover/recovery.h"
#include "pipeline/train/run.h"
#include "pipeline/train/start/starting_point.h"

namespace sluice {

// Messages that may be outstanding on an edge of the run's world.
size_t EdgeCapacity(const RunPlan& plan);

// Trains as one rank of the plan's world, on the calling thread: what a process of its own does.
// `world` joins all ranks, which must be given the same plan, data and options (all ranks are told
// in what they differ). Rank 0 tells `events`, and returns the trace of all ranks; the others'
// summaries have their own times, and no checkpoint. An error of any rank ends all of them: it is
// passed on with Abort, and returned. What a run starts from (resume, init, data) must be readable
// wherever a rank runs; each writes its part of a checkpoint (save_together.h).
absl::StatusOr<TrainResult> TrainRank(const RunPlan& plan, const Dataset& data,
                                      const TrainOptions& options, const TrainEvents& events,
                                      const std::atomic<bool>* stop, Communicator& world);

// A run whose processes come and go: groups of them train one after the other, and each takes over
// what the ones before it still hold.
struct Regrouping {
  // What this process holds of the run, before and afterwards.
  HeldState* held = nullptr;
  // Joins all processes that meet here: first the ranks of the plan's world, then those that only
  // give what they hold.
  Communicator* all = nullptr;
  // Joins the ranks alone; called once, when they have what processes still hold.
  std::function<absl::StatusOr<Communicator*>()> world;
  const std::atomic<bool>* regroup = nullptr;  // asks for an end after the current step
  // Where checkpoints of this very run may be, in case that state is lost; empty: nowhere, so that the
  // run then begins as it did the first time.
  std::string checkpoints;
  // The last step for which audits of earlier groups vouch (TrainEvents::on_vouched); -1: there was no
  // earlier group, so they vouch for what the run begins with.
  int64_t vouched_step = -1;
  // Of this process and all groups that it is in, where the run was resumed: what the first has found
  // out, so that the others need not open that checkpoint, which the run may have removed by now.
  // Null: each opens it.
  std::optional<StartingPoint>* resumed = nullptr;
};

// As TrainRank, for a group of such a run. Where the ranks still hold the whole state of a step
// between them, they go on from the newest one; else from a checkpoint. It returns, with what this
// process holds, when the run is done; with TrainSummary::regroups; or with an error, which other
// ranks may survive: Unavailable or DeadlineExceeded where one of them was lost, and any where
// HeldState::lie says which of them computes wrong. On a device, which must be the same for all
// groups of this process, it may also return with HeldState::device.
absl::StatusOr<TrainResult> TrainMember(std::shared_ptr<const RunPlan> plan, const Dataset& data,
                                        const TrainOptions& options, const TrainEvents& events,
                                        const std::atomic<bool>* stop,
                                        const Regrouping& regrouping);

// Gives what this process holds to those of `all` that train.
absl::Status GiveState(HeldState* held, absl::Duration timeout, Communicator& all);

// Trains with one thread per rank, of all replicas, in this process. `stop` (may be null) asks for an
// end after the current step; a checkpoint is then saved if there is a place for one, and the
// summary says interrupted. The first error of any rank ends all of them and is returned.
absl::StatusOr<TrainResult> TrainInProcess(const RunPlan& plan, const Dataset& data,
                                           const TrainOptions& options, const TrainEvents& events,
                                           const std::atomic<bool>* stop);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_TRAINER_H_
