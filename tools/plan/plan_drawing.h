#ifndef SLUICE_TOOLS_PLAN_PLAN_DRAWING_H_
#define SLUICE_TOOLS_PLAN_PLAN_DRAWING_H_

#include <string>

#include "partitioner/planning/plan/plan.h"

namespace sluice {

// One step of `plan` as SVG, with one row per rank. Requires a plan with a schedule.
std::string DrawPlan(const Plan& plan);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_PLAN_DRAWING_H_
