#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "partitioner/cuts/minimax.h"
#include "partitioner/memory/feasible.h"
#include "partitioner/partition_problem.h"
#include "partitioner/search/exact_partition.h"
#include "partitioner/search/partition_answer.h"

namespace sluice {
namespace {

double StageSeconds(const PartitionProblem& problem, int stage, const RangeCost& cost) {
  const double compute = cost.forward + cost.backward();
  if (stage + 1 == problem.stages() || std::isinf(problem.LinkAfter(stage).bandwidth))
    return compute;
  return std::max(compute,
                  2 * static_cast<double>(cost.output_bytes) / problem.LinkAfter(stage).bandwidth);
}

}  // namespace

absl::StatusOr<PartitionAnswer> FindBottleneckPartition(const PartitionProblem& problem) {
  if (absl::Status status = ValidateProblem(problem); !status.ok()) return status;
  if (problem.timetable->placement.chunks() > 1) {
    return absl::InvalidArgumentError(
        "the bottleneck objective is defined for one stage a device; use 1 chunk");
  }
  const Feasible feasible(problem);
  const std::optional<MinimaxAnswer> found =
      MinimaxPartition(problem.layer_count(), problem.stages(), [&](int stage, int first, int end) {
        const std::vector<Recompute> policies = feasible.Policies(stage, first, end);
        if (policies.empty()) return std::numeric_limits<double>::infinity();
        return StageSeconds(problem, stage, problem.Price(stage, first, end, policies.front()));
      });
  if (!found) return absl::NotFoundError("no partition fits into memory");
  PartitionAnswer answer;
  answer.assignment = *feasible.WithFastestPolicies(found->partition);
  answer.seconds = answer.lower_bound = found->value;
  answer.optimal = true;
  return answer;
}

double BottleneckSeconds(const PartitionProblem& problem, const StageAssignment& assignment) {
  const std::vector<RangeCost> stages = PriceStages(problem, assignment);
  double most = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    most = std::max(most, StageSeconds(problem, static_cast<int>(s), stages[s]));
  }
  return most;
}

}  // namespace sluice
