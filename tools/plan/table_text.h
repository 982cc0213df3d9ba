#ifndef SLUICE_TOOLS_PLAN_TABLE_TEXT_H_
#define SLUICE_TOOLS_PLAN_TABLE_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "partitioner/planning/plan.h"

namespace sluice {

// `text` moved to the right in a column of `width` characters.
std::string AlignRight(const std::string& text, size_t width);
std::string Repeat(const char* text, int count);
// At most `columns` characters of `line`, the last of which says that some are missing.
std::string Clipped(std::string line, int columns);

// What was not chosen and why: the first `most` of `rejected` (not empty), one line each of at most
// `columns`, and how many more there are.
std::string FormatRejected(const std::vector<RejectedPlan>& rejected, size_t most, int columns);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_TABLE_TEXT_H_
