#include "partitioner/planning/plan/plan_builder.h"

#include <numeric>
#include <utility>
#include <vector>

#include "partitioner/bounds/step_model.h"
#include "partitioner/search/exact_partition.h"

namespace sluice {

namespace {

std::vector<PlanStage> StagesOf(const Candidate& candidate, const StageAssignment& assignment,
                                const std::vector<RangeCost>& costs) {
  std::vector<PlanStage> stages(costs.size());
  for (size_t s = 0; s < stages.size(); ++s) {
    const LayerRange& range = assignment.partition[s];
    stages[s].layers.resize(static_cast<size_t>(range.size()));
    std::iota(stages[s].layers.begin(), stages[s].layers.end(), range.first);
    stages[s].rank = candidate.timetable.placement.rank(static_cast<int>(s));
    stages[s].recompute = assignment.recompute[s];
    stages[s].cost = costs[s];
    stages[s].in_flight = candidate.in_flight->peak(static_cast<int>(s));
  }
  return stages;
}

}  // namespace

absl::StatusOr<Plan> BuildPlan(const PlanRequest& request, const Candidate& candidate,
                               const StageAssignment& assignment) {
  const PartitionProblem problem = ProblemOf(request, candidate, request.partition);
  Plan plan;
  plan.objective = request.objective;
  plan.schedule = candidate.schedule;
  plan.description = candidate.Describe();
  plan.devices = request.devices;
  plan.chunks = candidate.chunks;
  plan.micro_batches = request.micro_batches;
  plan.timetable = candidate.timetable;
  const std::vector<RangeCost> costs = PriceStages(problem, assignment);
  plan.stage_costs = ToStepCosts(problem, costs);
  absl::StatusOr<Simulation> simulation = Simulate(plan.timetable, plan.stage_costs);
  if (!simulation.ok()) return simulation.status();
  plan.simulation = *std::move(simulation);
  plan.bubble = plan.simulation.bubble;
  plan.stages = StagesOf(candidate, assignment, costs);
  plan.peak_bytes = PeakBytes(*candidate.in_flight, costs);
  absl::StatusOr<StepModel> model = StepModel::Compile(plan.timetable);
  if (!model.ok()) return model.status();
  plan.step_seconds = model->Makespan(plan.stage_costs);
  plan.bottleneck_seconds = BottleneckSeconds(problem, assignment);
  return plan;
}

}  // namespace sluice
