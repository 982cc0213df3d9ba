#include "partitioner/planning/plan_builder.h"

#include <algorithm>
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

// Of the links from each rank to the next one, round the ring. A link serves both directions: a
// placement that turns back uses the one it came over. Ranks further apart are taken to have what
// is slowest between them.
Link LinkBetween(const std::vector<Link>& links, int from, int to) {
  const int ranks = static_cast<int>(links.size());
  if (to == (from + 1) % ranks) return links[from];
  Link slowest = links[std::min(from, to)];
  for (int rank = std::min(from, to); rank < std::max(from, to); ++rank) {
    slowest.latency = std::max(slowest.latency, links[rank].latency);
    slowest.bandwidth = std::min(slowest.bandwidth, links[rank].bandwidth);
  }
  return slowest;
}

}  // namespace

PartitionProblem ProblemOf(const PlanRequest& request, const Candidate& candidate) {
  PartitionProblem problem;
  const bool apart = RunsWeightGradsApart(candidate.timetable);
  problem.costs = apart ? &request.costs->apart() : request.costs;
  problem.timetable = &candidate.timetable;
  problem.in_flight = candidate.in_flight.get();
  problem.link = request.link;
  problem.memory_limit = request.memory_limit;
  problem.policies = request.policies;
  problem.fixed = request.partition;
  problem.rank_costs = request.rank_costs;
  if (apart) {
    for (const CostTable*& costs : problem.rank_costs) costs = &costs->apart();
  }
  problem.rank_memory = request.rank_memory;
  const Placement& placement = candidate.timetable.placement;
  for (int stage = 0; !request.rank_links.empty() && stage + 1 < placement.stages(); ++stage) {
    problem.links.push_back(
        LinkBetween(request.rank_links, placement.rank(stage), placement.rank(stage + 1)));
  }
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
