#include "partitioner/planning/plan/least_memory_plan.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/spec/units.h"
#include "partitioner/candidate.h"
#include "partitioner/memory/feasible.h"
#include "partitioner/partition_problem.h"
#include "partitioner/planning/plan/candidates.h"
#include "partitioner/planning/plan/plan_builder.h"

namespace sluice {
namespace {

// The least memory that one timetable needs, by what the layers declare.
struct Leanest {
  const Candidate* candidate = nullptr;
  StageAssignment assignment;
  int64_t bytes = 0;  // of the largest rank
};

absl::StatusOr<Leanest> LeanestOf(const PlanRequest& request, const Candidate& candidate) {
  const PartitionProblem problem = ProblemOf(request, candidate, request.partition);
  if (absl::Status status = ValidateProblem(problem); !status.ok()) return status;
  const Feasible feasible(problem);
  Leanest leanest{&candidate, feasible.LeastMemory(), 0};
  leanest.bytes = feasible.LargestBytes(PriceStages(problem, leanest.assignment));
  return leanest;
}

}  // namespace

absl::StatusOr<LeanestPlan> MakeLeastMemoryPlan(const PlanRequest& request,
                                                const std::function<absl::Status(Plan*)>& count) {
  const auto stopped = [&request] { return request.stop && request.stop(); };
  std::vector<RejectedPlan> rejected;
  bool left_out = false;
  const absl::StatusOr<std::vector<Candidate>> candidates =
      ListCandidates(request, &rejected, &left_out);
  if (!candidates.ok()) return candidates.status();
  std::vector<Leanest> ways;
  for (const Candidate& candidate : *candidates) {
    if (!ways.empty() && stopped()) {
      left_out = true;
      break;
    }
    absl::StatusOr<Leanest> way = LeanestOf(request, candidate);
    if (!way.ok()) return way.status();
    ways.push_back(*std::move(way));
  }
  std::stable_sort(ways.begin(), ways.end(),
                   [](const Leanest& a, const Leanest& b) { return a.bytes < b.bytes; });
  std::optional<Plan> least;
  for (const Leanest& way : ways) {
    if (least && way.bytes >= least->largest_peak_bytes()) break;
    absl::StatusOr<Plan> plan = BuildPlan(request, *way.candidate, way.assignment);
    if (!plan.ok()) return plan.status();
    if (count) {
      if (absl::Status status = count(&*plan); !status.ok()) return status;
    }
    if (!least || plan->largest_peak_bytes() < least->largest_peak_bytes())
      least = *std::move(plan);
  }
  least->rejected = std::move(rejected);
  // What runs take was not compared over all partitions, nor what several stages of a rank need.
  const bool proved = !left_out && !count && !AllowsCustomOrder(request) &&
                      std::all_of(candidates->begin(), candidates->end(),
                                  [](const Candidate& each) { return each.chunks == 1; });
  return LeanestPlan{.plan = *std::move(least), .all_tried = !left_out, .proved = proved};
}

absl::Status NothingFits(int64_t limit) {
  return absl::FailedPreconditionError(
      absl::StrCat("no plan fits into ", DescribeMemory(limit),
                   " per device; how much would do was not found within the time limit"));
}

absl::Status NothingFits(const LeanestPlan& leanest_plan, int64_t limit) {
  const Plan& leanest = leanest_plan.plan;
  const std::vector<int64_t>& peaks = leanest.peak_bytes;
  const int rank = static_cast<int>(std::max_element(peaks.begin(), peaks.end()) - peaks.begin());
  const auto bytes_of = [&leanest](int stage) {
    const RangeCost& cost = leanest.stages[stage].cost;
    return cost.parameter_bytes + leanest.stages[stage].in_flight * cost.activation_bytes;
  };
  const std::vector<int> stages = leanest.timetable.placement.StagesOf(rank);
  const int number = *std::max_element(stages.begin(), stages.end(),
                                       [&](int a, int b) { return bytes_of(a) < bytes_of(b); });
  const PlanStage& stage = leanest.stages[number];
  return absl::FailedPreconditionError(absl::StrCat(
      "no plan fits into ", DescribeMemory(limit), " per device: ",
      leanest_plan.proved      ? "even the leanest needs "
      : leanest_plan.all_tried ? "the leanest found needs "
                               : "the leanest that was looked at within the time limit needs ",
      DescribeMemory(peaks[rank]), "; with ", leanest.description, ", stage ", number, " (layers ",
      FormatPartition({LayerRange{stage.layers.front(), stage.layers.back()}}), ", ",
      stage.in_flight, stage.in_flight == 1 ? " micro-batch" : " micro-batches",
      " in flight, recompute ", RecomputeName(stage.recompute), ") needs most"));
}

}  // namespace sluice
