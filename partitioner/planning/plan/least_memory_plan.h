#ifndef SLUICE_PARTITIONER_PLANNING_PLAN_LEAST_MEMORY_PLAN_H_
#define SLUICE_PARTITIONER_PLANNING_PLAN_LEAST_MEMORY_PLAN_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/question/plan_request.h"

namespace sluice {

// The plan whose fullest device needs the least memory, whatever the limit (the least there is
// where devices have one stage each, a local optimum where they have several). Without a bound.
// InvalidArgument as MakePlan.
//
// `count`, where given, replaces a plan's peak_bytes, which the layers declare, by those that a run
// of it takes; plans are then compared by these. A timetable whose layers declare more than another
// one's run takes is not tried.
absl::StatusOr<Plan> MakeLeastMemoryPlan(const PlanRequest& request,
                                         const std::function<absl::Status(Plan*)>& count = nullptr);
// The FailedPrecondition for a limit that even `leanest`, which needs least memory, does not meet.
absl::Status NothingFits(const Plan& leanest, int64_t limit);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_PLAN_LEAST_MEMORY_PLAN_H_
