#include "tools/plan/table_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/strings/ascii.h"
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

std::string RankDevicesOf(const PlanContext& context) {
  const std::vector<RankDevices>& ranks = context.rank_devices;
  const auto numbers = [](const char* one, const char* several, auto first, auto last) {
    return first == last ? absl::StrCat(one, first) : absl::StrCat(several, first, "-", last);
  };
  std::vector<std::string> runs;
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1].kind == ranks[first].kind &&
           ranks[last + 1].first == ranks[last].last + 1) {
      ++last;
    }
    runs.push_back(absl::StrCat(numbers("rank ", "ranks ", first, last), " on ", ranks[first].kind,
                                numbers(" ", " ", ranks[first].first, ranks[last].last)));
    first = last + 1;
  }
  return absl::StrJoin(runs, ", ");
}

std::string RowWithText(std::string row, const std::string& text, int columns) {
  const size_t most = static_cast<size_t>(columns), behind = TextColumns(row);
  if (behind + TextColumns(text) <= most || behind <= most / 2)
    return WrappedBehind(row, text, columns);
  absl::StripTrailingAsciiWhitespace(&row);
  const size_t indent = std::min(row.find_first_not_of(' '), row.size());
  return (TextColumns(row) <= most
              ? row + "\n"
              : WrappedBehind(std::string(indent, ' '), row.substr(indent), columns)) +
         WrappedBehind("        ", text, columns);
}

std::string FormatRejected(const std::vector<RejectedPlan>& rejected, size_t most, int columns) {
  const size_t shown = std::min(most, rejected.size());
  // Of a row with its reason behind it.
  const size_t widest = static_cast<size_t>(columns) / 2;
  size_t width = 0;
  for (size_t i = 0; i < shown; ++i) {
    const size_t wants = TextColumns(rejected[i].what);
    if (wants <= widest) width = std::max(width, wants);
  }
  std::string out;
  for (size_t i = 0; i < shown; ++i) {
    out +=
        RowWithText(fmt::format("    {:<{}}  ", rejected[i].what, width), rejected[i].why, columns);
  }
  if (rejected.size() > most) {
    absl::StrAppend(&out, "    and ", rejected.size() - most, " more (--format json has all)\n");
  }
  return out;
}

}  // namespace sluice
