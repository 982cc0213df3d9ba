#include "partitioner/planning/graph/graph_bottleneck.h"

#include "partitioner/cuts/graph_stage.h"
#include "partitioner/planning/graph/graph_stage.h"

namespace sluice {

absl::StatusOr<Plan> FindGraphBottleneckPlan(const GraphRequest& request) {
  const absl::StatusOr<GraphPlan> found = FindGraphPartition(request);
  if (!found.ok()) return found.status();
  Plan plan;
  plan.objective = PlanObjective::kBottleneck;
  plan.devices = request.devices;
  plan.bottleneck_seconds = found->bottleneck_seconds;
  plan.cuts = found->cuts;
  plan.all_cuts = found->all_cuts;
  for (const GraphStage& stage : found->stages) {
    plan.stages.push_back(ToPlanStage(stage, static_cast<int>(plan.stages.size())));
    plan.peak_bytes.push_back(WholeBytes(stage.peak_bytes()));
  }
  plan.SetLowerBound(found->lower_bound);
  return plan;
}

}  // namespace sluice
