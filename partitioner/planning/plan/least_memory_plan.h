#ifndef SLUICE_PARTITIONER_PLANNING_PLAN_LEAST_MEMORY_PLAN_H_
#define SLUICE_PARTITIONER_PLANNING_PLAN_LEAST_MEMORY_PLAN_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/question/plan_request.h"

namespace sluice {

// A plan, and whether nothing else was left to look at when it was chosen.
struct LeanestPlan {
  Plan plan;
  bool all_tried = true;  // false: request.stop said so before
  bool proved = false;    // whether no plan that was asked for needs less
};

// The plan whose fullest device needs the least memory, whatever the limit (the least there is
// where devices have one stage each, a local optimum where they have several). Without a bound.
// request.stop is asked before each timetable after the first. InvalidArgument as MakePlan;
// DeadlineExceeded where it was stopped before there was a timetable.
//
// `count`, where given, replaces a plan's peak_bytes, which the layers declare, by those that a run
// of it takes; plans are then compared by these. A timetable whose layers declare more than another
// one's run takes is not tried. Where none fits into the memory of `request`, those that were are
// made leaner one after the other (MakeLeaner) until one does; a `count` that is DeadlineExceeded
// ends that, and not all was tried.
absl::StatusOr<LeanestPlan> MakeLeastMemoryPlan(
    const PlanRequest& request, const std::function<absl::Status(Plan*)>& count = nullptr);
// The FailedPrecondition for a limit that `leanest`, which needs least memory of those that were
// tried, does not meet; it was proved that none does. That nothing needs less is said only where
// that is proved as well.
absl::Status NothingFits(const LeanestPlan& leanest, int64_t limit);
// The same where nothing is known of how much would do.
absl::Status NothingFits(int64_t limit);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_PLAN_LEAST_MEMORY_PLAN_H_
