#include "partitioner/planning/replicated_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/spec/units.h"
#include "partitioner/search/replica_search.h"
#include "schedules/generators/catalogue.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Bytes are whole numbers.
constexpr double kByte = 0.5;

std::string Describe(double bytes) {
  return DescribeMemory(static_cast<int64_t>(std::ceil(bytes)));
}

// One timetable for each schedule asked for that can be dealt.
absl::StatusOr<std::vector<Timetable>> WideTimetables(const GraphStepRequest& request) {
  std::vector<Timetable> wide;
  absl::Status why;
  for (const CatalogueEntry& entry : Catalogue()) {
    if (request.schedule != "auto" && request.schedule != entry.name) continue;
    if (request.schedule == "auto" && entry.default_chunks != 1) continue;
    absl::StatusOr<Timetable> table = GenerateSchedule(
        entry.name,
        {.ranks = request.devices, .micro_batches = request.micro_batches, .chunks = 1});
    if (table.ok()) table = NarrowTimetable(*table, std::vector<int>(request.devices, 1));
    why.Update(table.status());
    if (table.ok()) wide.push_back(*std::move(table));
  }
  if (!wide.empty() && request.chunks <= 1) return wide;
  if (!why.ok() && request.schedule != "auto") return why;
  return absl::InvalidArgumentError(
      absl::StrCat("stages on several devices take a schedule with a flush and one stage a device, "
                   "not ",
                   request.schedule, " with ", request.chunks, " chunks"));
}

GraphStepStage StageOf(const GraphWork& work, const ReplicaAnswer& answer, size_t s) {
  const std::vector<int>& replicas = answer.stages.replicas;
  GraphStepStage stage;
  stage.work = work.StageBetween(answer.stages.cuts[s], answer.stages.cuts[s + 1]);
  stage.work.replicas = replicas[s];
  stage.work.in_flight = answer.step.in_flight[s];
  stage.rank = std::accumulate(replicas.begin(), replicas.begin() + static_cast<ptrdiff_t>(s), 0);
  stage.peak_bytes = stage.work.peak_bytes();
  return stage;
}

}  // namespace

absl::StatusOr<GraphStepPlan> FindReplicatedPlan(const GraphStepRequest& request,
                                                 const GraphWork& work, double* lower_bound) {
  absl::StatusOr<std::vector<Timetable>> wide = WideTimetables(request);
  if (!wide.ok()) return wide.status();
  const ReplicaProblem problem = {.work = &work,
                                  .devices = request.devices,
                                  .micro_batches = request.micro_batches,
                                  .link = request.link,
                                  .memory = request.memory,
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
  GraphStepPlan plan;
  plan.schedule = chosen.name;
  plan.timetable = *std::move(table);
  plan.costs = std::move(answer.costs);
  plan.description =
      absl::StrCat(plan.schedule, ", stages of ", absl::StrJoin(answer.stages.replicas, "+"));
  plan.step_seconds = answer.step.seconds;
  plan.bubble = answer.step.bubble;
  for (size_t s = 0; s < answer.stages.replicas.size(); ++s) {
    const GraphStage& stage = plan.stages.emplace_back(StageOf(work, answer, s)).work;
    plan.bottleneck_seconds = std::max(
        plan.bottleneck_seconds, (stage.forward_seconds + stage.backward_seconds) / stage.replicas);
  }
  plan.lower_bound = std::min(answer.lower_bound, plan.step_seconds);
  plan.optimal = plan.gap() <= kProofTolerance;
  plan.cuts = work.sets.size() - 2;
  return plan;
}

absl::Status WhyNoReplicatedPlan(const GraphStepRequest& request, const GraphWork& work) {
  double bound = 0;
  const auto within = [&](double memory) {
    GraphStepRequest any = request;
    any.memory = memory;
    any.gap = 1e9;  // the first one will do
    return FindReplicatedPlan(any, work, &bound);
  };
  absl::StatusOr<GraphStepPlan> leanest = within(kInfinity);
  if (absl::IsDeadlineExceeded(leanest.status())) return leanest.status();
  if (!leanest.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "stages whose devices divide ", request.micro_batches, " micro-batches do not add up to ",
        request.devices, " devices; choose a number of micro-batches that has more divisors"));
  }
  const auto fuller = [](const GraphStepStage& a, const GraphStepStage& b) {
    return a.peak_bytes < b.peak_bytes;
  };
  const auto fullest = [&](const GraphStepPlan& plan) {
    return std::max_element(plan.stages.begin(), plan.stages.end(), fuller);
  };
  double low = request.memory, high = fullest(*leanest)->peak_bytes;
  while (high - low > kByte) {
    const double middle = low + (high - low) / 2;
    absl::StatusOr<GraphStepPlan> leaner = within(middle);
    if (absl::IsDeadlineExceeded(leaner.status())) return leaner.status();
    if (!leaner.ok()) {
      low = middle;
      continue;
    }
    leanest = std::move(leaner);
    high = fullest(*leanest)->peak_bytes;
  }
  const auto stage = fullest(*leanest);
  return absl::FailedPreconditionError(absl::StrCat(
      "no plan fits into ", Describe(request.memory), " a device: even the leanest needs ",
      Describe(high), ", of each device of stage ", stage - leanest->stages.begin(), ", of ",
      leanest->description));
}

}  // namespace sluice
