#ifndef SLUICE_TOOLS_PLAN_PLAN_LIMITS_H_
#define SLUICE_TOOLS_PLAN_PLAN_LIMITS_H_

#include "absl/status/status.h"
#include "tools/plan/plan_flags.h"
#include "tools/plan/plan_source.h"

// Numbers beyond what anybody trains with, whose products would overflow 64 bits, or whose
// timetables would take all memory.
namespace sluice {

// Each flag alone: InvalidArgument names it and the most that it takes.
absl::Status CheckPlanLimits(const PlanFlags& flags, const PlanChoices& choices);

// Lets the source's prices refuse, before anything is counted, every setting that flags make too
// large together: InvalidArgument names them.
void LimitSettings(PlanSource* source);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_PLAN_LIMITS_H_
