#ifndef SLUICE_TOOLS_PLAN_GRAPH_TABLE_H_
#define SLUICE_TOOLS_PLAN_GRAPH_TABLE_H_

#include <string>

#include "partitioner/planning/plan.h"
#include "partitioner/planning/plan_context.h"

namespace sluice {

// A plan of a graph of operations for people: which operations each stage holds, what it costs, and
// what is proved of it. At most `columns` wide, as far as that can be.
std::string FormatGraphTable(const Plan& plan, const PlanContext& context, int columns);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_GRAPH_TABLE_H_
