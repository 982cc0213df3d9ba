#ifndef SLUICE_PARTITIONER_PLANNING_PLAN_CANDIDATES_H_
#define SLUICE_PARTITIONER_PLANNING_PLAN_CANDIDATES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/candidate.h"
#include "partitioner/memory/in_flight.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/question/plan_request.h"

namespace sluice {

// The timetables that `request` allows, those that keep the fewest micro-batches in flight first.
// What could not be generated is added to `rejected`; `stopped` says whether that was for want of
// time. InvalidArgument when a named schedule cannot be had, or none can.
absl::StatusOr<std::vector<Candidate>> ListCandidates(const PlanRequest& request,
                                                      std::vector<RejectedPlan>* rejected,
                                                      bool* stopped);

// Whether a custom order (orders/custom_order.h) is an answer to `request`: not where a schedule,
// chunks, a partition or a placement was asked for, nor for another objective than the step.
bool AllowsCustomOrder(const PlanRequest& request);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_PLAN_CANDIDATES_H_
