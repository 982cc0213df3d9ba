#ifndef SLUICE_TOOLS_PLAN_PLAN_TABLE_H_
#define SLUICE_TOOLS_PLAN_PLAN_TABLE_H_

#include <string>
#include <vector>

#include "partitioner/planning/joint_plan.h"
#include "tools/plan/plan_search.h"
#include "tools/plan/plan_source.h"

namespace sluice {

// A plan for people: who gets what, what it costs, and what is proved of it. At most `columns`
// wide.
std::string FormatPlanTable(const JointPlan& best, const PlanSource& source, int columns,
                            bool colour);
// What was not chosen and why: the first `most` of `rejected` (not empty), a line each of at most
// `columns`, and how many more there are.
std::string FormatRejected(const std::vector<RejectedPlan>& rejected, size_t most, int columns);
// A table of what `variants` of `plan` would take and need, under `title`; empty without any.
std::string FormatVariants(const char* title, const std::vector<PlanVariant>& variants,
                           const Plan& plan, int columns);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_PLAN_TABLE_H_
