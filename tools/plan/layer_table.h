#ifndef SLUICE_TOOLS_PLAN_LAYER_TABLE_H_
#define SLUICE_TOOLS_PLAN_LAYER_TABLE_H_

#include <string>

#include "partitioner/planning/answer/answer.h"

namespace sluice {

// A plan of a chain of layers as a table: the layers and costs of each stage, and what is proved.
// At most `columns` wide.
std::string FormatLayerTable(const PlanAnswer& answer, int columns, bool colour);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_LAYER_TABLE_H_
