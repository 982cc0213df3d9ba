#ifndef SLUICE_PIPELINE_CHECKPOINT_SAVING_CHECKPOINT_LAYOUT_H_
#define SLUICE_PIPELINE_CHECKPOINT_SAVING_CHECKPOINT_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/checkpoint/saving/weight_shards.h"
#include "pipeline/compile/plan/run_plan.h"
#include "pipeline/state/state_gather.h"

namespace sluice {

// Elements of one tensor of a checkpoint that one rank writes.
struct CheckpointPart {
  StateKind kind = StateKind::kWeight;
  int parameter = 0;  // canonical index
  int owner = 0;      // rank of the world that has them, and writes them
  int64_t first = 0;  // elements first .. first + count - 1 of the tensor
  int64_t count = 0;
  uint64_t offset = 0;  // bytes into the file
};

// A file of tensors: what it begins with, and the parts that follow, without gaps.
struct CheckpointFile {
  std::string name;
  std::string head;    // length and header, as safetensors has them; of an index, all of it
  uint64_t bytes = 0;  // in all
  std::vector<CheckpointPart> parts;
};

// The files of tensors: weights, in one file or, where that had more than `shard_bytes` bytes, in
// shards of which none has more (but for one with a single tensor), and their index; and moments.
// Of a run with an adapter, instead of the weights PEFT's two files, whose config names `base` as
// the folder of the model that the adapter is for ("": null). The same bytes however the state is
// divided, and the same answer on every rank. What the replicas have divided among themselves, each
// writes its slices of; of what all have, each writes an equal share in one piece.
absl::StatusOr<std::vector<CheckpointFile>> LayOutCheckpoint(const RunPlan& plan,
                                                             int64_t shard_bytes = kShardBytes,
                                                             const std::string& base = "");

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_SAVING_CHECKPOINT_LAYOUT_H_
