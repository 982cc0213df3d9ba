#ifndef SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_STAGE_H_
#define SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_STAGE_H_

#include <cstdint>
#include <vector>

#include "partitioner/cuts/graph_stage.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/search/graph_partition.h"

namespace sluice {

// What a plan says of `stage`, whose replicas are the ranks from `rank` on. Half of a backward is I
// and half W, as GraphWork has it.
PlanStage ToPlanStage(const GraphStage& stage, int rank);
// Whole bytes; what 64 bits cannot count is the most that they can.
int64_t WholeBytes(double bytes);
// [rank] bytes where every rank holds one stage alone, and the stages are on neighbouring ranks.
std::vector<int64_t> PeakBytesByRank(const std::vector<GraphStage>& stages);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_STAGE_H_
