#ifndef SLUICE_PARTITIONER_PLANNING_PLAN_LEANER_PLAN_H_
#define SLUICE_PARTITIONER_PLANNING_PLAN_LEANER_PLAN_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "partitioner/candidate.h"
#include "partitioner/machines.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/question/plan_request.h"

namespace sluice {

// Whether every rank has the memory that `plan` needs there; always where there is no limit.
bool FitsInto(const Machines& machines, const Plan& plan);

// Makes `plan`, which is of `candidate` and whose peak_bytes are what `count` says of it, leaner
// one change at a time: a layer goes from one stage to another, or stages recompute something else.
// Ends once the plan fits into the memory of `request`, when no change that was counted makes it
// leaner, or when plans of `*actions` actions in all were counted; what was counted is taken off
// `*actions`. Deterministic. Errors are those of `count`; `plan` is then the leanest so far.
absl::Status MakeLeaner(const PlanRequest& request, const Candidate& candidate,
                        const std::function<absl::Status(Plan*)>& count, int64_t* actions,
                        Plan* plan);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_PLAN_LEANER_PLAN_H_
