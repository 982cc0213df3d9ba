#include "partitioner/planning/graph/graph_seeds.h"

#include <numeric>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "partitioner/cuts/graph_stage.h"
#include "partitioner/graph_plan.h"
#include "partitioner/planning/graph/graph_chain.h"
#include "partitioner/planning/race/planner.h"
#include "partitioner/search/graph_partition.h"
#include "schedules/partition.h"

namespace sluice {
namespace {

constexpr size_t kManyNodes = 128;

// Stage by stage of the partition with the least bottleneck; empty where none fits.
std::vector<int> OrderOfBottleneck(const GraphStepRequest& request) {
  GraphRequest bottleneck;
  bottleneck.graph = request.graph;
  bottleneck.devices = request.devices;
  bottleneck.machines = request.machines;
  bottleneck.cut_limits = request.cut_limits;
  bottleneck.stop = request.stop;
  const absl::StatusOr<GraphPlan> plan = FindGraphPartition(bottleneck);
  std::vector<int> order;
  if (!plan.ok()) return order;
  for (const GraphStage& stage : plan->stages) {
    order.insert(order.end(), stage.nodes.begin(), stage.nodes.end());
  }
  return order;
}

// Several stages per device along an order of hundreds of nodes take longer than all the rest,
// and are seldom the best.
PlanRequest QuickAlongChain(const GraphStepRequest& request, std::shared_ptr<const CostTable> chain,
                            double cutoff) {
  PlanRequest along = AlongChain(request, std::move(chain), cutoff);
  const bool many = request.graph->nodes.size() > kManyNodes;
  if (many && !along.schedule && along.chunks == 0) along.chunks = 1;
  return along;
}

// Nothing where there is no plan below the cutoff.
absl::StatusOr<std::optional<GraphSeed>> SeedAlong(const PlanRequest& along,
                                                   const std::vector<int>& order) {
  const absl::StatusOr<std::optional<Plan>> plan = MakePlanBelowCutoff(along);
  if (!plan.ok()) {
    const bool nothing =
        absl::IsFailedPrecondition(plan.status()) || absl::IsDeadlineExceeded(plan.status());
    if (nothing) return std::nullopt;
    return plan.status();
  }
  if (!*plan) return std::nullopt;
  GraphSeed seed = SeedOf(**plan);
  for (std::vector<int>& stage : seed.stages) {
    for (int& node : stage) node = order[node];
  }
  return seed;
}

}  // namespace

PlanRequest AlongChain(const GraphStepRequest& request, std::shared_ptr<const CostTable> chain,
                       double cutoff) {
  PlanRequest along;
  along.machines = request.machines;
  along.machines.costs = std::move(chain);
  along.devices = request.devices;
  along.micro_batches = request.micro_batches;
  along.schedule = request.schedule;
  along.chunks = request.chunks;
  along.gap = request.gap;
  along.budget = request.budget / kShareOfSeeds;
  along.cutoff = cutoff;
  along.stop = request.stop;
  return along;
}

GraphSeed SeedOf(const Plan& plan) {
  GraphSeed seed{plan.schedule, plan.chunks, {}, plan.step_seconds};
  for (const PlanStage& stage : plan.stages) seed.stages.push_back(stage.layers);
  return seed;
}

absl::StatusOr<std::vector<GraphSeed>> FindGraphSeeds(const GraphStepRequest& request,
                                                      double cutoff) {
  std::vector<GraphSeed> seeds;
  std::vector<int> in_file(request.graph->nodes.size());
  std::iota(in_file.begin(), in_file.end(), 0);
  const auto chain = ChainOf(*request.graph);
  if (!chain.ok()) return chain.status();
  absl::StatusOr<std::optional<GraphSeed>> seed =
      SeedAlong(QuickAlongChain(request, *chain, cutoff), in_file);
  if (!seed.ok()) return seed.status();
  if (*seed) seeds.push_back(**std::move(seed));
  const std::vector<int> order = OrderOfBottleneck(request);
  if (order.empty() || order == in_file) return seeds;
  const auto other = ChainOf(InOrder(*request.graph, order));
  if (!other.ok()) return seeds;  // as good as none
  seed = SeedAlong(QuickAlongChain(request, *other, cutoff), order);
  if (seed.ok() && *seed) seeds.push_back(**std::move(seed));
  return seeds;
}

}  // namespace sluice
