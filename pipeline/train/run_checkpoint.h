#ifndef SLUICE_PIPELINE_TRAIN_RUN_CHECKPOINT_H_
#define SLUICE_PIPELINE_TRAIN_RUN_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/data/dataset.h"
#include "pipeline/checkpoint/files/checkpoint.h"
#include "pipeline/checkpoint/files/hyper_parameters.h"
#include "pipeline/checkpoint/saving/save_outcome.h"
#include "pipeline/state/rank_state.h"
#include "pipeline/train/run.h"

namespace sluice {

// A checkpoint that a run goes on from.
struct ResumePoint {
  int64_t step = 0;
  std::shared_ptr<const LoadedCheckpoint> checkpoint;
  // What the run goes on with, and a line for each thing in which it was asked to be another.
  HyperParameters hyper_parameters;
  std::vector<std::string> differences;
};

// What is saved of a run, beside what its ranks hold.
struct SavePoint {
  int64_t step = 0;
  std::string base_hash = {};       // base_hash.h: of what an adapter is for, which is not written
  std::vector<int64_t> stays = {};  // as SaveRequest's
  bool evaluation_due = false;      // as RunState's
};

// `path` from the root, so that a run that is started elsewhere finds it; "" stays. Of a folder
// also where links lead: `latest` will lead elsewhere, while a file may be a link out of its folder.
std::string WholePath(const std::string& path);

// Writes weights and optimizer state of all ranks at `point` below options.saving.directory, as
// SaveTogether does. Called by every rank of `world`, between steps: each writes what it holds
// into files that are the same however the state was divided. `on_read` (may be empty) is called as
// soon as the state may change, unless a rank is lost before.
absl::StatusOr<SaveOutcome> SaveRun(const RankState& state, const TrainOptions& options,
                                    const Dataset& data, const SavePoint& point,
                                    Communicator& world, const std::function<void()>& on_read = {});

// Opens the checkpoint at `path` and checks that this run can continue it bit for bit: same model,
// micro-batches and groups of them, seed, data, compute type, optimizer and rule by which weights
// are updated (at a flush, or without one). Stages, schedule, recomputation, replicas and what they
// divide may differ. InvalidArgument names what differs. Hyper-parameters are the checkpoint's, but
// for options.training.given. Where `path` is a directory of checkpoints and its newest is damaged,
// the newest good one before it is taken, and a line of `differences` says so.
absl::StatusOr<ResumePoint> OpenResumePoint(const std::string& path, const RunPlan& plan,
                                            const TrainOptions& options, const Dataset& data);

// Fills one rank's weights and optimizer state; of a run with an adapter, the adapter's alone.
absl::Status LoadState(const LoadedCheckpoint& checkpoint, RankState& state);

// Fills one rank's weights that are not trained, from a checkpoint of a whole model.
absl::Status LoadFrozen(const LoadedCheckpoint& checkpoint, RankState& state);

// Fills one rank's weights from a model.safetensors (a Hugging Face one too).
absl::Status LoadInitialWeights(const std::string& path, RankState& state);

// Fills one rank's adapter from a folder as OpenAdapter takes it. InvalidArgument where it is of
// another rank or scale than the run's, or of another model.
absl::Status LoadAdapter(const std::string& path, RankState& state);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_RUN_CHECKPOINT_H_
