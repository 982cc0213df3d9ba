#ifndef SLUICE_TOOLS_PLAN_PLAN_SEARCH_H_
#define SLUICE_TOOLS_PLAN_PLAN_SEARCH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/planning/joint_plan.h"
#include "partitioner/planning/plan_variant.h"
#include "partitioner/planning/planner.h"
#include "tools/plan/plan_flags.h"
#include "tools/plan/plan_source.h"

namespace sluice {

// What flags ask the planner for, of a source. The source must outlive it. InvalidArgument names
// the flags that do not fit together.
absl::StatusOr<JointRequest> MakeJointRequest(const PlanFlags& flags, const PlanChoices& choices,
                                              const PlanSource& source);

// A callback that answers true once `seconds` have gone by; empty without a limit.
std::function<bool()> StopAfter(const std::optional<double>& seconds);

// The best plan, with the bytes that a run of a model that sluice trains allocates: a plan that
// does not fit after all is made again for less memory. Shows how far it is on a terminal. Errors
// as MakePlan.
absl::StatusOr<JointPlan> FindPlan(const PlanChoices& choices, const PlanSource& source,
                                   const JointRequest& request);

// What more devices, memory or bandwidth would buy.
std::vector<PlanVariant> WhatIf(const PlanFlags& flags, const PlanChoices& choices,
                                const PlanSource& source, const JointPlan& best);
// The fastest plan for every amount of memory, from what the best plan needs downwards, until
// nothing fits; at most some 20, each at least 2 % smaller than the one before.
std::vector<PlanVariant> ParetoFront(const PlanFlags& flags, const PlanChoices& choices,
                                     const PlanSource& source);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_PLAN_SEARCH_H_
