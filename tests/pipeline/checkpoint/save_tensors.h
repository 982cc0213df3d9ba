#ifndef SLUICE_TESTS_PIPELINE_CHECKPOINT_SAVE_TENSORS_H_
#define SLUICE_TESTS_PIPELINE_CHECKPOINT_SAVE_TENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/checkpoint/files/run_state.h"
#include "pipeline/checkpoint/saving/save_together.h"
#include "pipeline/checkpoint/saving/weight_shards.h"
#include "tests/models/files/write_safetensors.h"

namespace sluice {

// The file `name` with these tensors, in the form that SaveTogether takes: one part per tensor, all
// of them written by rank 0; `first` is the number (CheckpointPart::parameter) of its first tensor.
absl::StatusOr<CheckpointFile> FileOf(const std::string& name,
                                      const std::vector<TensorSource>& tensors, int first);

// The path of what was saved, or why nothing was.
absl::StatusOr<std::string> PathOf(const absl::StatusOr<SaveOutcome>& outcome);

// Saves a checkpoint of these tensors in the way of a run with one rank, weights in files of at most
// `shard_bytes`, and returns its path.
// Errors are those of SaveTogether.
absl::StatusOr<std::string> SaveTensors(const std::string& directory, const RunState& state,
                                        const std::vector<TensorSource>& weights,
                                        const std::vector<TensorSource>& optimizer,
                                        int keep = kCheckpointsKept,
                                        int64_t shard_bytes = kShardBytes);

}  // namespace sluice

#endif  // SLUICE_TESTS_PIPELINE_CHECKPOINT_SAVE_TENSORS_H_
