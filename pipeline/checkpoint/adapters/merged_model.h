#ifndef SLUICE_PIPELINE_CHECKPOINT_ADAPTERS_MERGED_MODEL_H_
#define SLUICE_PIPELINE_CHECKPOINT_ADAPTERS_MERGED_MODEL_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "pipeline/checkpoint/saving/weight_shards.h"

namespace sluice {

struct MergeRequest {
  std::string base;     // a model's folder, as OpenModelFolder takes it
  std::string adapter;  // as OpenAdapter takes it
  std::string output;   // a folder that is not there yet, or is empty but for what a merge left
  int64_t shard_bytes = kShardBytes;
};

struct MergedModel {
  int64_t maps = 0;     // that the adapter has changed
  int64_t tensors = 0;  // in all
  uint64_t bytes = 0;   // of the weights
};

// Writes a folder that transformers loads: the base model's weights, each in the type that it has
// there, with the adapter's products added in fp32 to those of the adapted maps; config.json as it
// is in the base model's folder, and the other files of IsKeptFile. One tensor is in memory at a
// time. config.json comes last, so a folder that has one is whole; after an error nothing is left.
// What a merge that is killed leaves is removed by the next one that would write the same files; a
// file .sluice-merge.tmp-PROCESS-N says until the end that they are not whole.
// Errors are those of OpenModelFolder, MatchWeights, OpenAdapter and AdaptedMaps; InvalidArgument
// for an output folder with files, and a weight that is not finite; ResourceExhausted when the disk
// is full.
absl::StatusOr<MergedModel> MergeModel(const MergeRequest& request);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_ADAPTERS_MERGED_MODEL_H_
