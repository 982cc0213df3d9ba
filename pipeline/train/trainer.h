#ifndef SLUICE_PIPELINE_TRAIN_TRAINER_H_
#define SLUICE_PIPELINE_TRAIN_TRAINER_H_

#include <atomic>
#include <cstddef>

#include "absl/status/statusor.h"
#include "comm/communicator.h"
#include "models/data/dataset.h"
#include "pipeline/compile/plan/run_plan.h"
#include "pipeline/train/run.h"

namespace sluice {

// Messages that may be outstanding on an edge of the run's world.
size_t EdgeCapacity(const RunPlan& plan);

// Trains as one rank of the plan's world, on the calling thread: what a process of its own does.
// `world` joins all ranks, which must be given the same plan, data and options (all ranks are told
// in what they differ). Rank 0 tells `events`, and returns the summary and the trace of all ranks;
// of the others' summaries only `interrupted` and `steps` say something. An error of any rank ends
// all of them: it is passed on with Abort, and returned. What a run starts from (resume, init, data) must be readable wherever a rank
// runs; each writes its part of a checkpoint (save_together.h).
absl::StatusOr<TrainResult> TrainRank(const RunPlan& plan, const Dataset& data,
                                      const TrainOptions& options, const TrainEvents& events,
                                      const std::atomic<bool>* stop, Communicator& world);

// Trains with one thread per rank, of all replicas, in this process. `stop` (may be null) asks for an
// end after the current step; a checkpoint is then saved if there is a place for one, and the
// summary says interrupted. The first error of any rank ends all of them and is returned.
absl::StatusOr<TrainResult> TrainInProcess(const RunPlan& plan, const Dataset& data,
                                           const TrainOptions& options, const TrainEvents& events,
                                           const std::atomic<bool>* stop);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_TRAINER_H_
