#include "partitioner/planning/graph/replicated_plan.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/spec/units.h"
#include "partitioner/cuts/graph_stage.h"
#include "partitioner/planning/graph/graph_stage.h"
#include "partitioner/search/replica_search.h"
#include "partitioner/search/search_options.h"
#include "schedules/counted.h"
#include "schedules/generators/catalogue.h"
#include "schedules/simulate/dealt_times.h"

namespace sluice {
namespace {

// One timetable for each schedule asked for that can be dealt.
absl::StatusOr<std::vector<Timetable>> WideTimetables(const GraphStepRequest& request) {
  std::vector<Timetable> wide;
  absl::Status why;
  for (const CatalogueEntry& entry : Catalogue()) {
    if (request.schedule && *request.schedule != entry.name) continue;
    if (!request.schedule && entry.default_chunks != 1) continue;
    absl::StatusOr<Timetable> table = GenerateSchedule(
        entry.name,
        {.ranks = request.devices, .micro_batches = request.micro_batches, .chunks = 1});
    if (table.ok()) table = NarrowTimetable(*table, std::vector<int>(request.devices, 1));
    why.Update(table.status());
    if (table.ok()) wide.push_back(*std::move(table));
  }
  if (!wide.empty() && request.chunks <= 1) return wide;
  if (!why.ok() && request.schedule) return why;
  return absl::InvalidArgumentError(
      absl::StrCat("stages on several devices take a schedule with a flush and one stage a device, "
                   "not ",
                   request.schedule.value_or("auto"), " with ", request.chunks, " chunks"));
}

std::vector<GraphStage> StagesOf(const GraphWork& work, const ReplicaAnswer& answer) {
  std::vector<GraphStage> stages;
  for (size_t s = 0; s < answer.stages.replicas.size(); ++s) {
    GraphStage& stage =
        stages.emplace_back(work.StageBetween(answer.stages.cuts[s], answer.stages.cuts[s + 1]));
    stage.replicas = answer.stages.replicas[s];
    stage.in_flight = answer.step.in_flight[s];
  }
  return stages;
}

// The stages stand on neighbouring ranks.
void TakeStages(const std::vector<GraphStage>& stages, Plan* plan) {
  int rank = 0;
  for (const GraphStage& stage : stages) {
    plan->stages.push_back(ToPlanStage(stage, rank));
    plan->bottleneck_seconds =
        std::max(plan->bottleneck_seconds,
                 (stage.forward_seconds + stage.backward_seconds) / stage.replicas);
    rank += stage.replicas;
  }
  plan->peak_bytes = PeakBytesByRank(stages);
}

// Its number; every rank has one stage alone.
size_t FullestStage(const Plan& plan) {
  const auto fuller = [&plan](const PlanStage& a, const PlanStage& b) {
    return plan.peak_bytes[a.rank] < plan.peak_bytes[b.rank];
  };
  return static_cast<size_t>(std::max_element(plan.stages.begin(), plan.stages.end(), fuller) -
                             plan.stages.begin());
}

// One step of `plan` on its ranks, which share out the micro-batches of a stage.
Simulation SimulateReplicas(const Plan& plan, const std::vector<int>& replicas) {
  const DealtTimetable dealt(plan.timetable, StageDeal(replicas, 1));
  return SimulateDealt(dealt, plan.stage_costs, plan.stage_costs.tail, Detail::kEveryAction);
}

}  // namespace

absl::StatusOr<Plan> FindReplicatedPlan(const GraphStepRequest& request, const GraphWork& work,
                                        double* lower_bound) {
  absl::StatusOr<std::vector<Timetable>> wide = WideTimetables(request);
  if (!wide.ok()) return wide.status();
  const ReplicaProblem problem = {.work = &work,
                                  .devices = request.devices,
                                  .micro_batches = request.micro_batches,
                                  .machines = request.machines,
                                  .wide = *std::move(wide)};
  SearchOptions options;
  options.gap = request.gap;
  options.budget = request.budget;
  options.stop = request.stop;
  ReplicaAnswer answer = ReplicaSearch(problem).Run(options);
  *lower_bound = answer.lower_bound;
  if (answer.step.wide < 0) {
    if (answer.complete) return absl::FailedPreconditionError("does not fit");
    return absl::DeadlineExceededError(
        "the search ended before it found anything that fits; give it more time or memory");
  }
  const Timetable& chosen = problem.wide[answer.step.wide];
  absl::StatusOr<Timetable> table = NarrowTimetable(chosen, answer.stages.replicas);
  if (!table.ok()) return table.status();
  Plan plan;
  plan.devices = request.devices;
  plan.micro_batches = request.micro_batches;
  plan.cuts = work.sets.size() - 2;
  plan.all_cuts = work.sets.all();
  plan.schedule = chosen.name;
  plan.timetable = *std::move(table);
  plan.stage_costs = std::move(answer.costs);
  plan.description =
      absl::StrCat(plan.schedule, ", stages of ", absl::StrJoin(answer.stages.replicas, "+"));
  plan.step_seconds = answer.step.seconds;
  plan.bubble = answer.step.bubble;
  TakeStages(StagesOf(work, answer), &plan);
  plan.simulation = SimulateReplicas(plan, answer.stages.replicas);
  plan.SetLowerBound(answer.lower_bound);
  return plan;
}

absl::Status WhyNoReplicatedPlan(const GraphStepRequest& request, const GraphWork& work) {
  double bound = 0;
  const auto within = [&](std::optional<int64_t> memory) {
    GraphStepRequest any = request;
    any.machines.SetMemory(memory);
    any.gap = 1e9;  // the first one will do
    return FindReplicatedPlan(any, work, &bound);
  };
  absl::StatusOr<Plan> leanest = within(std::nullopt);
  if (absl::IsDeadlineExceeded(leanest.status())) return leanest.status();
  if (!leanest.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("stages whose devices divide ", Counted(request.micro_batches, "micro-batch"),
                     " do not add up to ", Counted(request.devices, "device"),
                     "; choose a number of micro-batches that has more divisors"));
  }
  int64_t low = request.machines.least_memory(), high = leanest->largest_peak_bytes();
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    absl::StatusOr<Plan> leaner = within(middle);
    if (absl::IsDeadlineExceeded(leaner.status())) return leaner.status();
    if (!leaner.ok()) {
      low = middle;
      continue;
    }
    leanest = std::move(leaner);
    high = leanest->largest_peak_bytes();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "no plan fits into ", DescribeMemory(request.machines.least_memory()),
      " per device: even the leanest needs ", DescribeMemory(high), ", of each device of stage ",
      FullestStage(*leanest), ", of ", leanest->description));
}

}  // namespace sluice
