#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedules/check/validate_checks.h"

namespace sluice {
namespace {

// The micro-batches of the actions of one kind on one stage: a contiguous range.
struct Range {
  int first = 0;
  int last = 0;
  int64_t count() const { return int64_t{last} - first + 1; }
  friend bool operator<(const Range& a, const Range& b) {
    return std::pair(a.first, a.last) < std::pair(b.first, b.last);
  }
};

std::string ToString(const Range& range) { return absl::StrCat(range.first, "..", range.last); }

// A kind of action that every micro-batch has on every stage.
struct Kind {
  OpMask ops;
  const char* name;
};
constexpr Kind kKinds[] = {{Bit(Op::kForward), "forward"},
                           {kMakesInputGrad, "backward"},
                           {kMakesWeightGrad, "weight gradient"}};

// The range of micro-batches; absent where there are none, or where it has gaps.
std::optional<Range> RangeOf(const std::set<int>& found) {
  if (found.empty()) return std::nullopt;
  const Range range{*found.begin(), *found.rbegin()};
  if (range.count() != static_cast<int64_t>(found.size())) return std::nullopt;
  return range;
}

// [stage] the range of the actions of `kind` on its rank.
std::vector<std::optional<Range>> RangesOf(const Timetable& table, const Kind& kind) {
  std::vector<std::set<int>> found(static_cast<size_t>(table.placement.stages()));
  for (size_t rank = 0; rank < table.rows.size(); ++rank) {
    for (const Action& action : table.rows[rank]) {
      if (!(Bit(action.op) & kind.ops)) continue;
      const bool is_stage = action.stage < found.size();
      if (!is_stage || table.placement.rank(action.stage) != static_cast<int>(rank)) continue;
      found[action.stage].insert(action.micro_batch);
    }
  }
  std::vector<std::optional<Range>> ranges;
  ranges.reserve(found.size());
  for (const std::set<int>& of_stage : found) ranges.push_back(RangeOf(of_stage));
  return ranges;
}

// The range that more than half of the stages have.
std::optional<Range> MostCommon(const std::vector<std::optional<Range>>& ranges) {
  std::map<Range, size_t> stages;
  for (const auto& range : ranges) {
    if (range.has_value() && ++stages[*range] * 2 > ranges.size()) return range;
  }
  return std::nullopt;
}

std::optional<Defect> MisnumberedIn(const Timetable& table, const Kind& kind) {
  const std::vector<std::optional<Range>> ranges = RangesOf(table, kind);
  const std::optional<Range> usual = MostCommon(ranges);
  if (!usual.has_value()) return std::nullopt;
  for (int stage = 0; stage < table.placement.stages(); ++stage) {
    const std::optional<Range>& range = ranges[static_cast<size_t>(stage)];
    if (!range.has_value() || range->count() != usual->count()) continue;
    const int64_t shift = int64_t{range->first} - usual->first;
    if (shift == 0) continue;
    return Defect{
        table.placement.rank(stage), -1, "",
        absl::StrCat("the ", kind.name, " actions of stage ", stage, " are of micro-batches ",
                     ToString(*range), ", those of most stages of ", ToString(*usual),
                     ": they are numbered ", std::abs(shift), " too ", shift > 0 ? "high" : "low")};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Defect> FindMisnumbered(const Timetable& timetable) {
  if (timetable.placement.copies() > 1) return std::nullopt;
  for (const Kind& kind : kKinds) {
    if (auto defect = MisnumberedIn(timetable, kind)) return defect;
  }
  return std::nullopt;
}

}  // namespace sluice
