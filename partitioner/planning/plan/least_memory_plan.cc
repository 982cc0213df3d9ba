#include "partitioner/planning/plan/least_memory_plan.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/spec/units.h"
#include "partitioner/candidate.h"
#include "partitioner/memory/feasible.h"
#include "partitioner/partition_problem.h"
#include "partitioner/planning/plan/candidates.h"
#include "partitioner/planning/plan/leaner_plan.h"
#include "partitioner/planning/plan/plan_builder.h"
#include "schedules/counted.h"

namespace sluice {
namespace {

// Actions of the plans whose runs are counted while they are made leaner: bounds the time of large
// ones, to a few seconds.
constexpr int64_t kMostActions = 200'000;

// The least memory that one timetable needs, by what the layers declare.
struct Way {
  const Candidate* candidate = nullptr;
  StageAssignment assignment;
  int64_t bytes = 0;  // of the largest rank
};

absl::StatusOr<Way> LeanestWay(const PlanRequest& request, const Candidate& candidate) {
  const PartitionProblem problem = ProblemOf(request, candidate, request.partition);
  if (absl::Status status = ValidateProblem(problem); !status.ok()) return status;
  const Feasible feasible(problem);
  Way way{&candidate, feasible.LeastMemory(), 0};
  way.bytes = feasible.LargestBytes(PriceStages(problem, way.assignment));
  return way;
}

std::vector<Plan>::iterator LeanestOf(std::vector<Plan>& plans) {
  return std::min_element(plans.begin(), plans.end(), [](const Plan& a, const Plan& b) {
    return a.largest_peak_bytes() < b.largest_peak_bytes();
  });
}

// Makes plans[i], which is of ways[i], leaner, one plan after the other, until one of them fits.
absl::Status MakeOneFit(const PlanRequest& request, const std::vector<Way>& ways,
                        const std::function<absl::Status(Plan*)>& count, std::vector<Plan>* plans) {
  int64_t actions = kMostActions;
  for (size_t i = 0; i < plans->size(); ++i) {
    if (FitsInto(request.machines, *LeanestOf(*plans))) break;
    absl::Status status = MakeLeaner(request, *ways[i].candidate, count, &actions, &(*plans)[i]);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
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
  std::vector<Way> ways;
  for (const Candidate& candidate : *candidates) {
    if (!ways.empty() && stopped()) {
      left_out = true;
      break;
    }
    absl::StatusOr<Way> way = LeanestWay(request, candidate);
    if (!way.ok()) return way.status();
    ways.push_back(*std::move(way));
  }
  std::stable_sort(ways.begin(), ways.end(),
                   [](const Way& a, const Way& b) { return a.bytes < b.bytes; });
  std::vector<Plan> plans;  // [way], of those that may be leanest
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Way& way : ways) {
    if (way.bytes >= least) break;
    absl::StatusOr<Plan> plan = BuildPlan(request, *way.candidate, way.assignment);
    if (!plan.ok()) return plan.status();
    if (count) {
      if (absl::Status status = count(&*plan); !status.ok()) return status;
    }
    least = std::min(least, plan->largest_peak_bytes());
    plans.push_back(*std::move(plan));
  }
  if (count) {
    const absl::Status status = MakeOneFit(request, ways, count, &plans);
    if (absl::IsDeadlineExceeded(status)) left_out = true;
    if (!status.ok() && !absl::IsDeadlineExceeded(status)) return status;
  }
  Plan& leanest = *LeanestOf(plans);
  leanest.rejected = std::move(rejected);
  // What runs take was not compared over all partitions, nor what several stages of a rank need.
  const bool proved = !left_out && !count && !AllowsCustomOrder(request) &&
                      std::all_of(candidates->begin(), candidates->end(),
                                  [](const Candidate& each) { return each.chunks == 1; });
  return LeanestPlan{.plan = std::move(leanest), .all_tried = !left_out, .proved = proved};
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
      Counted(stage.in_flight, "micro-batch"), " in flight, recompute ",
      RecomputeName(stage.recompute), ") needs most"));
}

}  // namespace sluice
