#ifndef SLUICE_PIPELINE_COMPILE_PROGRAM_PROGRAM_REQUEST_H_
#define SLUICE_PIPELINE_COMPILE_PROGRAM_PROGRAM_REQUEST_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "models/layers/layer.h"
#include "pipeline/compile/plan/sharding.h"
#include "schedules/partition.h"
#include "schedules/stage_deal.h"
#include "schedules/timetable.h"

namespace sluice {

// What a rank's program is made from; the same for all ranks of a pipeline.
struct ProgramRequest {
  const std::vector<LayerDecl>* layers = nullptr;  // of the whole model
  const Timetable* timetable = nullptr;            // lowered
  const StageDeal* deal = nullptr;                 // of its micro-batches
  const Partition* partition = nullptr;            // a range of layers per stage of the model
  // One policy per stage of the model: what its backward rebuilds; a RECOMPUTE of the timetable does
  // so instead for its micro-batch, everything where the policy is none.
  std::vector<Recompute> recompute;
  bool recompute_ahead = false;  // only RECOMPUTE rebuilds; without one activations are kept
  int64_t batch_rows = 1;
  bool documents = false;  // as in RunRequest
  // Gradients are summed in micro-batch order within each of this many groups of consecutive
  // micro-batches, then over the groups in order. 1 where the timetable has several copies of the
  // model (each is a group) or is asynchronous. With replicas: the groups of one replica.
  int sum_groups = 1;
  // Pipelines that run the same program; each group's gradients are summed over them, slice by
  // slice, as they are over a stage's members. One where stages have members.
  int replicas = 1;
  const ShardBounds* shards = nullptr;  // needed with replicas or members
  // Whole gradients live only until they are summed over the replicas (ZeRO-2). Otherwise all
  // replicas get all sums, unless `gather_gradients` is false (ZeRO-1).
  bool shard_gradients = false;
  bool gather_gradients = true;
};

// InvalidArgument when partition and timetable do not fit each other or the layers, or gradients
// cannot be summed in that many groups.
absl::Status CheckRequest(const ProgramRequest& request);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_PROGRAM_PROGRAM_REQUEST_H_
