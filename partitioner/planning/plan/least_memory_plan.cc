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
#include "partitioner/planning/plan/candidates.h"
#include "partitioner/planning/plan/plan_builder.h"

namespace sluice {

absl::StatusOr<Plan> MakeLeastMemoryPlan(const PlanRequest& request) {
  std::vector<RejectedPlan> rejected;
  bool stopped = false;
  const absl::StatusOr<std::vector<Candidate>> candidates =
      ListCandidates(request, &rejected, &stopped);
  if (!candidates.ok()) return candidates.status();
  const Candidate* leanest = nullptr;
  StageAssignment assignment;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Candidate& candidate : *candidates) {
    const PartitionProblem problem = ProblemOf(request, candidate, request.partition);
    const Feasible feasible(problem);
    StageAssignment found = feasible.LeastMemory();
    const int64_t bytes = feasible.LargestBytes(PriceStages(problem, found));
    if (bytes >= least) continue;
    least = bytes;
    leanest = &candidate;
    assignment = std::move(found);
  }
  absl::StatusOr<Plan> plan = BuildPlan(request, *leanest, assignment);
  if (plan.ok()) plan->rejected = std::move(rejected);
  return plan;
}

absl::Status NothingFits(const Plan& leanest, int64_t limit) {
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
      "no plan fits into ", DescribeMemory(limit), " a device: even the leanest needs ",
      DescribeMemory(peaks[rank]), "; with ", leanest.description, ", stage ", number, " (layers ",
      FormatPartition({LayerRange{stage.layers.front(), stage.layers.back()}}), ", ",
      stage.in_flight, stage.in_flight == 1 ? " micro-batch" : " micro-batches",
      " in flight, recompute ", RecomputeName(stage.recompute), ") needs most"));
}

}  // namespace sluice
