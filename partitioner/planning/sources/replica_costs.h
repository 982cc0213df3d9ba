#ifndef SLUICE_PARTITIONER_PLANNING_SOURCES_REPLICA_COSTS_H_
#define SLUICE_PARTITIONER_PLANNING_SOURCES_REPLICA_COSTS_H_

#include <vector>

#include "models/spec/optimizer_kind.h"
#include "partitioner/costs/layer_cost.h"
#include "partitioner/partition_problem.h"

namespace sluice {

// Replicas of a pipeline that `sluice train` runs, and what they divide among themselves.
struct ReplicaShare {
  int replicas = 1;
  int zero = 0;           // 0, 1 or 2, as --zero
  int micro_batches = 1;  // of one replica, a step
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  Link link = {};  // between two replicas
};

// Turns the costs of layers of one pipeline into those of one replica: gradients are summed over
// the replicas once per step (with ZeRO-2 once per micro-batch), by a reduce-scatter and an
// all-gather that no computation hides; of the optimizer's state and its work, with ZeRO-2 of the
// sums too, each replica has a share. RunMemory counts what a run allocates, to the byte.
void ShareOverReplicas(const ReplicaShare& share, std::vector<LayerCost>* layers);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_SOURCES_REPLICA_COSTS_H_
