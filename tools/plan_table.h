#ifndef SLUICE_TOOLS_PLAN_TABLE_H_
#define SLUICE_TOOLS_PLAN_TABLE_H_

#include <string>
#include <vector>

#include "partitioner/joint_plan.h"
#include "tools/plan_search.h"
#include "tools/plan_source.h"

namespace sluice {

// A plan for people: who gets what, what it costs, and what is proved of it. At most `columns`
// wide.
std::string FormatPlanTable(const JointPlan& best, const PlanSource& source, int columns,
                            bool colour);
// A table of what `variants` of `plan` would take and need, under `title`; empty without any.
std::string FormatVariants(const char* title, const std::vector<PlanVariant>& variants,
                           const Plan& plan, int columns);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_TABLE_H_
