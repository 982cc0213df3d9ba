#ifndef SLUICE_PIPELINE_TRAIN_START_STARTING_POINT_H_
#define SLUICE_PIPELINE_TRAIN_START_STARTING_POINT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/data/dataset.h"
#include "pipeline/checkpoint/files/model_files.h"
#include "pipeline/compile/plan/run_plan.h"
#include "pipeline/state/rank_state.h"
#include "pipeline/train/run.h"
#include "pipeline/train/run_checkpoint.h"

namespace sluice {

// Where a run begins or goes on, as one process finds it. Without any of the three paths its
// weights are random ones.
struct StartingPoint {
  std::string resume = {};   // a checkpoint, as OpenResumePoint takes it
  std::string init = {};     // weights: of the whole model, or of what an adapter is for
  std::string adapter = {};  // PEFT's; not that of a checkpoint
  // Of `resume`. Its checkpoint is null where it has been closed.
  ResumePoint point = {};
  // Of that checkpoint, to be saved again; null where nothing will be.
  std::shared_ptr<const ModelFiles> model_files = {};
  // Of the weights that its adapter is for; "": not known.
  std::string base_hash = {};

  bool resumes() const { return !resume.empty(); }
  bool open() const { return point.checkpoint != nullptr; }
  // Whether the checkpoint has all weights: that of an adapter does not have what it is for.
  bool has_all() const { return open() && !point.checkpoint->adapter_only; }
  // The same without what keeps the checkpoint's files open.
  StartingPoint Closed() const;
};

// Opens what `options.saving` says. Errors as OpenResumePoint; InvalidArgument, which names `init`
// as `given_init`, where weights are given for a run that goes on with all of those in a checkpoint.
absl::StatusOr<StartingPoint> OpenStart(const RunPlan& plan, const Dataset& data,
                                        const TrainOptions& options, const std::string& given_init);

// The same for a run that goes on from a checkpoint which it has saved itself, at `path`: it may have
// begun with other weights, of which only those that an adapter is for are read again.
absl::StatusOr<StartingPoint> OpenOwnCheckpoint(const std::string& path, const RunPlan& plan,
                                                const Dataset& data, const TrainOptions& options);

// A sum over the files of `init` and `adapter` (SampleTensors), which differs where other weights
// are read. What cannot be read counts as nothing: to load it is the error.
uint64_t SampleStart(const StartingPoint& start);

// Fills one rank's weights and optimizer state, where the random ones are those of `seed`. `start`
// is open if it resumes. The state's compute copies must be made afterwards (RankState::Pack).
absl::Status LoadStart(const StartingPoint& start, uint64_t seed, RankState& state);

// The same of the parameters that are not trained; the others are left undefined.
absl::Status LoadFrozenStart(const StartingPoint& start, uint64_t seed, RankState& state);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_START_STARTING_POINT_H_
