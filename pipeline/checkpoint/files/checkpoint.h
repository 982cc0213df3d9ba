#ifndef SLUICE_PIPELINE_CHECKPOINT_FILES_CHECKPOINT_H_
#define SLUICE_PIPELINE_CHECKPOINT_FILES_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/files/safetensors.h"
#include "pipeline/checkpoint/files/run_state.h"

namespace sluice {

// A checkpoint is everything that a run needs to go on as if it had never stopped: named fp32
// tensors and a RunState. It says nothing of stages, so a run may go on with another number of
// them. ../README.md describes what is on the disk below the DIR of --save: a folder
// for each checkpoint, DIR/step-00000100, and a link to the newest, DIR/latest. At every moment
// `latest` is a whole checkpoint. A GPT's folder is one that transformers' from_pretrained loads.

struct LoadedCheckpoint {
  std::string path;  // of the step's folder
  RunState state;    // but for model_files
  // Of a run with an adapter the adapter's tensors alone: the others are those of the model that it
  // began with (RunState::base).
  std::unique_ptr<SafetensorsFile> weights;
  bool adapter_only = false;
  std::unique_ptr<SafetensorsFile> optimizer;
  std::vector<std::string> files;  // the names of those that were verified
  uint64_t hash = 0;               // of all that they hold
};

// The folder of the step that `path` means: itself, or where DIR/latest leads for DIR. Nothing in
// it is verified. NotFound when there is no checkpoint, InvalidArgument when `path` is not a
// directory.
absl::StatusOr<std::string> FindCheckpoint(const std::string& path);
// The same, but the newest good one of a directory that has no `latest`.
absl::StatusOr<std::string> FindCheckpointToResume(const std::string& path);

// The files of the model's folder that the checkpoint has, for a run that goes on from it. Errors
// name the file.
absl::StatusOr<ModelFiles> KeptModelFiles(const LoadedCheckpoint& checkpoint);

// Opens the folder of one step, or DIR, which means DIR/latest. Sizes and checksums of all files
// are verified before anything is made of them. NotFound when there is no checkpoint; DataLoss
// names the damaged file and the newest good checkpoint beside it, which is never taken silently.
absl::StatusOr<LoadedCheckpoint> OpenCheckpoint(const std::string& path);

// DataLoss where a weight or a part of the optimizer's state is NaN or infinite, as programs before
// this check may have saved it; names the tensor, and the newest good checkpoint beside it.
absl::Status CheckFinite(const LoadedCheckpoint& checkpoint);

// Opens a checkpoint as OpenCheckpoint does, and checks that it is finite. Where `path` is a
// directory of checkpoints, and the one to which `latest` leads is gone, damaged or not finite, or
// there is no `latest`, opens the newest good one before it instead; `*instead` then says in a
// line what was wrong, and which one is taken.
absl::StatusOr<LoadedCheckpoint> OpenNewestGoodCheckpoint(const std::string& path,
                                                          std::string* instead);

// Whether there is a checkpoint to go on from: false where nothing is at `path`, or a directory in
// which there never was one. InvalidArgument where it is no directory; NotFound where checkpoints
// are there, but none that is good, and no `latest`.
absl::StatusOr<bool> HasCheckpoint(const std::string& path);

// The checkpoint to go on from after `step` steps of a run that saves to `path`, or was resumed
// from it (a directory of checkpoints, or one of them): the newest one up to that step, else, if
// `later_too`, the newest of all, that is whole and has finite values only. "" without any.
std::string NewestGoodCheckpoint(const std::string& path, int64_t step, bool later_too = true);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_FILES_CHECKPOINT_H_
