#ifndef SLUICE_TOOLS_PLAN_TABLE_TEXT_H_
#define SLUICE_TOOLS_PLAN_TABLE_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/plan/plan_context.h"

namespace sluice {

// `text` aligned to the right in a column of `width` characters.
std::string AlignRight(const std::string& text, size_t width);
std::string Repeat(const char* text, int count);
// "2 replicas, 4 tensor-parallel devices per stage": how devices are used beside the pipeline.
std::string DegreesOf(const PlanContext& context);

// "ranks 0-2 on h100 0-2, ranks 3-6 on a100 4-7, rank 7 on h100 3", by the devices' numbers in the
// cluster; empty where all devices are alike.
std::string RankDevicesOf(const PlanContext& context);

// `row` and `text`, which begins on a line below the row where behind it there is room for a word
// or two only; in lines of at most `columns`.
std::string RowWithText(std::string row, const std::string& text, int columns);

// The rejected plans and the reasons: the first `most` of `rejected` (not empty), in lines of at
// most `columns`, and the number of further ones.
std::string FormatRejected(const std::vector<RejectedPlan>& rejected, size_t most, int columns);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_TABLE_TEXT_H_
