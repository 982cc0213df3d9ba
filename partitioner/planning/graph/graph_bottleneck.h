#ifndef SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_BOTTLENECK_H_
#define SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_BOTTLENECK_H_

#include "absl/status/statusor.h"
#include "partitioner/graph_plan.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/search/graph_partition.h"

namespace sluice {

// The plan of a graph with the least bottleneck, without a schedule: proved where all cuts of the
// graph could be tried. Errors as FindGraphPartition.
absl::StatusOr<Plan> FindGraphBottleneckPlan(const GraphRequest& request);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_BOTTLENECK_H_
