#ifndef SLUICE_PARTITIONER_PLANNING_PLAN_PLAN_BUILDER_H_
#define SLUICE_PARTITIONER_PLANNING_PLAN_PLAN_BUILDER_H_

#include "absl/status/statusor.h"
#include "partitioner/candidate.h"
#include "partitioner/partition_problem.h"
#include "partitioner/planning/plan/candidates.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/question/plan_request.h"

namespace sluice {

// Everything about one assignment; the bound and what was rejected are left empty.
absl::StatusOr<Plan> BuildPlan(const PlanRequest& request, const Candidate& candidate,
                               const StageAssignment& assignment);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_PLAN_PLAN_BUILDER_H_
