#ifndef SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_SEEDS_H_
#define SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_SEEDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/cuts/cost_table.h"
#include "partitioner/planning/graph/graph_step_request.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/question/plan_request.h"

namespace sluice {

// Of the budget of a request, for each of its seeds.
inline constexpr int64_t kShareOfSeeds = 32;

// A plan of a graph that was quick to find, for the search to beat.
struct GraphSeed {
  std::string schedule;
  int chunks = 1;
  std::vector<std::vector<int>> stages;  // nodes, in an order with sources first
  double step_seconds = 0;
};

// The best plans along one or two orders of the nodes: that of the file, and stage by stage that of
// the partition with the least bottleneck. Only those below `cutoff`; errors as MakePlan, but for
// there being no plan.
absl::StatusOr<std::vector<GraphSeed>> FindGraphSeeds(const GraphStepRequest& request,
                                                      double cutoff);
// A plan of the graph as a seed.
GraphSeed SeedOf(const Plan& plan);

// What `request` asks of a chain along one order of the nodes.
PlanRequest AlongChain(const GraphStepRequest& request, std::shared_ptr<const CostTable> chain,
                       double cutoff);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_SEEDS_H_
