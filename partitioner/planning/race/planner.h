#ifndef SLUICE_PARTITIONER_PLANNING_RACE_PLANNER_H_
#define SLUICE_PARTITIONER_PLANNING_RACE_PLANNER_H_

#include <optional>

#include "absl/status/statusor.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/question/plan_request.h"

namespace sluice {

// Seconds of the objective that no plan beats, known before any is tried: StepFloor; for the
// bottleneck 0, as a step's seconds say nothing of it, or infinite where nothing fits.
double ObjectiveFloor(const PlanRequest& request);

// Seconds of the objective, for a plan that is quick to find, by 1F1B or the one schedule that was
// asked for; infinite where none of the few tried fits.
double QuickSeconds(const PlanRequest& request);

// The best plan over the schedules asked for: of two equally fast ones, the one with fewer
// activations in flight. `before` is the plan of a request that allowed a little more memory: its
// stages, in another order, are one more thing to try. May be null. Nothing where it is proved that
// no plan is below request.cutoff.
// Deterministic. InvalidArgument when the request makes no sense (names what); FailedPrecondition
// when nothing fits: names the stage that needs most in the plan that needs least memory, and how
// much memory would do; DeadlineExceeded when it was stopped before anything that fits was found.
// Runs on as many threads as oneTBB gives; the answer does not depend on how many.
absl::StatusOr<std::optional<Plan>> MakePlanBelowCutoff(const PlanRequest& request,
                                                        const Plan* before = nullptr);

// The same for a request without a cutoff: NotFound where it has one, and nothing is below it.
absl::StatusOr<Plan> MakePlan(const PlanRequest& request, const Plan* before = nullptr);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_RACE_PLANNER_H_
