#include "tools/plan/table_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/terminal.h"

namespace sluice {

std::string AlignRight(const std::string& text, size_t width) {
  const size_t have = TextColumns(text);
  return std::string(have < width ? width - have : 0, ' ') + text;
}

std::string Repeat(const char* text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

std::string DegreesOf(const PlanContext& context) {
  std::vector<std::string> parts;
  if (context.data_parallel > 1) parts.push_back(fmt::format("{} replicas", context.data_parallel));
  if (context.tensor_parallel > 1) {
    parts.push_back(fmt::format("{} tensor-parallel devices per stage{}", context.tensor_parallel,
                                context.sequence_parallel ? ", sequence-parallel" : ""));
  }
  if (context.zero > 0) parts.push_back(fmt::format("ZeRO {}", context.zero));
  if (context.mirror && context.data_parallel == 1)
    parts.emplace_back("each rank keeps the state of the next, too");
  return absl::StrJoin(parts, ", ");
}

std::string FormatRejected(const std::vector<RejectedPlan>& rejected, size_t most, int columns) {
  size_t width = 0;
  for (const RejectedPlan& each : rejected) width = std::max(width, each.what.size());
  std::string out;
  for (size_t i = 0; i < std::min(most, rejected.size()); ++i) {
    out += WrappedBehind(fmt::format("    {:<{}}  ", rejected[i].what, width), rejected[i].why,
                         columns);
  }
  if (rejected.size() > most) {
    absl::StrAppend(&out, "    and ", rejected.size() - most, " more (--format json has all)\n");
  }
  return out;
}

}  // namespace sluice
