#ifndef SLUICE_TOOLS_PLAN_PLAN_TABLE_H_
#define SLUICE_TOOLS_PLAN_PLAN_TABLE_H_

#include <string>

#include "partitioner/planning/answer/answer.h"

namespace sluice {

// A plan and its variants as tables. At most `columns` wide, if that is possible.
std::string FormatPlanTable(const PlanAnswer& answer, int columns, bool colour);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_PLAN_TABLE_H_
