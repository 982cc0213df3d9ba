#ifndef SLUICE_TOOLS_PLAN_PLAN_TABLE_H_
#define SLUICE_TOOLS_PLAN_PLAN_TABLE_H_

#include <string>

#include "partitioner/planning/answer.h"

namespace sluice {

// A plan and its variants for people. At most `columns` wide, as far as that can be.
std::string FormatPlanTable(const PlanAnswer& answer, int columns, bool colour);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_PLAN_TABLE_H_
