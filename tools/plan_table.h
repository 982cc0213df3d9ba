#ifndef SLUICE_TOOLS_PLAN_TABLE_H_
#define SLUICE_TOOLS_PLAN_TABLE_H_

#include <optional>
#include <string>

#include "partitioner/planner.h"
#include "tools/plan_source.h"

namespace sluice {

// A plan for people: who gets what, what it costs, and what is proved of it. At most `columns`
// wide.
std::string FormatPlanTable(const Plan& plan, const PlanSource& source, int columns, bool colour);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_TABLE_H_
