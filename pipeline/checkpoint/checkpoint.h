#ifndef SLUICE_PIPELINE_CHECKPOINT_CHECKPOINT_H_
#define SLUICE_PIPELINE_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/files/safetensors.h"
#include "models/spec/model_spec.h"

namespace sluice {

// A checkpoint is everything that a run needs to go on as if it had never stopped: named fp32
// tensors and a RunState. It says nothing of stages, so a run may go on with another number of
// them. README.md in this folder describes what is on the disk below the DIR of --save: a folder
// for each checkpoint, DIR/step-00000100, and a link to the newest, DIR/latest. At every moment
// `latest` is a whole checkpoint. A GPT's folder is one that transformers' from_pretrained loads.

struct RunState {
  int64_t step = 0;  // steps done
  uint64_t seed = 0;
  ModelSpec model;
  std::string optimizer;                           // "adamw", "sgd"
  std::map<std::string, double> hyper_parameters;  // of the optimizer and the learning rate; finite
  int64_t micro_batch_size = 1;
  int64_t micro_batches = 1;  // of a step, of all replicas
  int64_t sum_groups = 0;     // in which their gradients are summed; 0: an older checkpoint's
  // Of the micro-batches within each group, as SumOrder::ToString says it.
  std::string sum_order = "ascending";
  // When weights are updated: "flush", or a schedule without one; empty: an older checkpoint's.
  std::string updates;
  std::string partition;  // layers of each stage, "0-3,4-7", of a run without a flush; else empty
  int64_t seq = 1;
  DType dtype = DType::kFloat32;
  std::string data_path;
  std::string data_fingerprint;  // Dataset::fingerprint()
  // A JSON object, nested less than JsonLimits says; kept but for its layout and the order of its
  // fields.
  std::string more = "{}";
};

// What Save keeps unless told otherwise.
constexpr int kCheckpointsKept = 2;

// Saves DIR/step-N (replacing a checkpoint that is there), N = state.step, points `latest` to it,
// and removes all but the newest `keep` of the checkpoints up to N; nothing else in DIR is touched.
// Returns the folder's path. `weights` carry the names and shapes of the file format (Hugging
// Face's for a GPT, the tied head left out); `optimizer` any names, such as "NAME.m" and "NAME.v".
// Tensors are written in the order given, which should be the canonical one. One run at a time may
// save to a DIR: run_directory.h keeps others out. ResourceExhausted when the disk is full; after
// any error the checkpoints that were there are untouched and nothing else is left behind but
// DIR/.sluice. FailedPrecondition where DIR/step-N, `latest` or .sluice is not ours.
// InvalidArgument when a hyper-parameter is not finite or `more` is no JSON object.
absl::StatusOr<std::string> SaveCheckpoint(const std::string& directory, const RunState& state,
                                           const std::vector<TensorSource>& weights,
                                           const std::vector<TensorSource>& optimizer,
                                           int keep = kCheckpointsKept);

struct LoadedCheckpoint {
  std::string path;  // of the step's folder
  RunState state;
  std::unique_ptr<SafetensorsFile> weights;
  std::unique_ptr<SafetensorsFile> optimizer;
};

// The folder of the step that `path` means: itself, or where DIR/latest leads for DIR. Nothing in
// it is verified. NotFound when there is no checkpoint, InvalidArgument when `path` is not a
// directory.
absl::StatusOr<std::string> FindCheckpoint(const std::string& path);

// Opens the folder of one step, or DIR, which means DIR/latest. Sizes and checksums of all files
// are verified before anything is made of them. NotFound when there is no checkpoint; DataLoss
// names the damaged file and the newest good checkpoint beside it, which is never taken silently.
absl::StatusOr<LoadedCheckpoint> OpenCheckpoint(const std::string& path);

// DataLoss where a weight or a part of the optimizer's state is NaN or infinite, as programs before
// this check may have saved it; names the tensor, and the newest good checkpoint beside it.
absl::Status CheckFinite(const LoadedCheckpoint& checkpoint);

// The checkpoint to go on from after `step` steps of a run that saves to `path`, or was resumed
// from it (a directory of checkpoints, or one of them): the newest one up to that step, else the
// newest of all, that is whole and has finite values only. "" without any.
std::string NewestGoodCheckpoint(const std::string& path, int64_t step);

// Where to read a tensor to: row-major fp32 of `shape`, or `count` of its elements from element
// `first` on.
struct TensorTarget {
  std::string name;
  std::vector<int64_t> shape;
  float* data = nullptr;
  int64_t first = 0;
  int64_t count = -1;  // negative: all
};

// Reads all of `targets`, or none: NotFound names the tensors that `file` lacks, InvalidArgument
// the one of another shape. Tensors that are not asked for are ignored.
absl::Status ReadTensors(const SafetensorsFile& file, const std::vector<TensorTarget>& targets);

// A whole model's weights, of which the targets may be a part: a rank asks only for its own.
struct WeightNames {
  std::vector<std::string> all;  // of every tensor that the model stores
  std::vector<TensorTarget>
      copies;  // tied tensors, not stored, with the values that they must have
};

// Reads a Hugging Face model.safetensors (`path` is the file or its folder) for --init. As
// ReadTensors, but names match with or without "transformer." in front. InvalidArgument where the
// file is of another model: it holds blocks ("h.7...") that `model` has not, or a tensor of its own
// where the model is tied, with other values. Further tensors (attention masks) are ignored.
absl::Status LoadWeights(const std::string& path, const std::vector<TensorTarget>& targets,
                         const WeightNames& model);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_CHECKPOINT_H_
