#ifndef SLUICE_TOOLS_PLAN_GRAPH_TABLE_H_
#define SLUICE_TOOLS_PLAN_GRAPH_TABLE_H_

#include <string>

#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/plan/plan_context.h"

namespace sluice {

// A plan of a graph of operations as a table: the operations and costs of each stage, and what is
// proved. At most `columns` wide, if that is possible.
std::string FormatGraphTable(const Plan& plan, const PlanContext& context, int columns);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_GRAPH_TABLE_H_
