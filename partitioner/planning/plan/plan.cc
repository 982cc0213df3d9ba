#include "partitioner/planning/plan/plan.h"

#include <algorithm>

namespace sluice {

bool Plan::has_replicas() const {
  return std::any_of(stages.begin(), stages.end(),
                     [](const PlanStage& stage) { return stage.replicas > 1; });
}

Partition Plan::partition() const {
  Partition partition;
  for (const PlanStage& stage : stages) {
    partition.push_back({stage.layers.front(), stage.layers.back()});
  }
  return partition;
}

void Plan::SetLowerBound(double bound) {
  lower_bound = std::min(bound, objective_seconds());
  optimal = gap() <= kProofTolerance;
}

double Plan::tied_exchange_seconds() const {
  double seconds = 0;
  for (const PlanStage& stage : stages) seconds = std::max(seconds, stage.cost.tied_exchange);
  return seconds;
}

int64_t Plan::largest_peak_bytes() const {
  return *std::max_element(peak_bytes.begin(), peak_bytes.end());
}

StageAssignment AssignmentOf(const Plan& plan) {
  StageAssignment assignment;
  assignment.partition = plan.partition();
  for (const PlanStage& stage : plan.stages) assignment.recompute.push_back(stage.recompute);
  return assignment;
}

}  // namespace sluice
