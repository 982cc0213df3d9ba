#include "partitioner/planning/plan_builder.h"

#include <utility>

#include "partitioner/bounds/step_model.h"
#include "partitioner/search/exact_partition.h"

namespace sluice {

namespace {

bool RunsWeightGradsApart(const Timetable& timetable) {
  for (const auto& row : timetable.rows) {
    for (const Action& action : row) {
      if (action.op == Op::kWeightGrad) return true;
    }
  }
  return false;
}

}  // namespace

PartitionProblem ProblemOf(const PlanRequest& request, const Candidate& candidate) {
  PartitionProblem problem;
  problem.machines =
      RunsWeightGradsApart(candidate.timetable) ? request.machines.Apart() : request.machines;
  problem.timetable = &candidate.timetable;
  problem.in_flight = candidate.in_flight.get();
  problem.policies = request.policies;
  problem.fixed = request.partition;
  return problem;
}

absl::StatusOr<Plan> BuildPlan(const PlanRequest& request, const Candidate& candidate,
                               const StageAssignment& assignment) {
  const PartitionProblem problem = ProblemOf(request, candidate);
  Plan plan;
  plan.objective = request.objective;
  plan.schedule = candidate.schedule;
  plan.description = candidate.Describe();
  plan.devices = request.devices;
  plan.chunks = candidate.chunks;
  plan.micro_batches = request.micro_batches;
  plan.timetable = candidate.timetable;
  plan.assignment = assignment;
  plan.stages = PriceStages(problem, assignment);
  plan.stage_costs = ToStepCosts(problem, plan.stages);
  absl::StatusOr<Simulation> simulation = Simulate(plan.timetable, plan.stage_costs);
  if (!simulation.ok()) return simulation.status();
  plan.simulation = *std::move(simulation);
  const InFlight& in_flight = *candidate.in_flight;
  for (int stage = 0; stage < problem.stages(); ++stage) {
    plan.in_flight.push_back(in_flight.peak(stage));
  }
  plan.peak_bytes = PeakBytes(in_flight, plan.stages);
  absl::StatusOr<StepModel> model = StepModel::Compile(plan.timetable);
  if (!model.ok()) return model.status();
  plan.step_seconds = model->Makespan(plan.stage_costs);
  plan.bottleneck_seconds = BottleneckSeconds(problem, assignment);
  return plan;
}

}  // namespace sluice
