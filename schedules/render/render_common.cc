#include "schedules/render/render_common.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedules/counted.h"

namespace sluice {

namespace {

constexpr int kExactDigits = 10;
constexpr int kShortDigits = 4;

// The facts, with times as `format` writes them.
template <typename Format>
std::vector<std::string> FactsWith(const Simulation& run, const Format& format) {
  return {absl::StrCat("makespan ", format(run.makespan)),
          absl::StrCat("bubble ", FormatPercent(run.bubble)),
          absl::StrCat("span bubble ", FormatPercent(run.span_bubble)),
          absl::StrCat("bound ", format(run.lower_bound)),
          absl::StrCat("gap ", FormatGap(run.gap))};
}

// With so many significant digits.
std::string Grouped(double value, int digits) {
  constexpr double kGroupFrom = 10000;
  constexpr size_t kGroup = 3;
  std::string text = absl::StrFormat("%.*g", digits, value);
  if (!(value >= kGroupFrom) || text.find_first_not_of("0123456789.") != std::string::npos)
    return text;
  const size_t whole = std::min(text.find('.'), text.size());
  std::string grouped;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i > 0 && i < whole && (whole - i) % kGroup == 0) grouped += ',';
    grouped += text[i];
  }
  return grouped;
}

}  // namespace

std::string FormatNumber(double value) { return Grouped(value, kExactDigits); }

std::string FormatShort(double value, int digits) {
  const double rounded = std::round(value);
  // What is lost to rounding in sums of fractions is no fraction.
  const bool whole = std::abs(value - rounded) <= 1e-9 * std::abs(value);
  const double digits_before = std::floor(std::log10(std::max(std::abs(value), 1.0))) + 1;
  const bool long_whole = digits_before >= digits && digits_before <= kExactDigits;
  return Grouped(whole || long_whole ? rounded : value,
                 whole || long_whole ? kExactDigits : digits);
}

std::string FormatGap(double gap) { return std::isfinite(gap) ? FormatPercent(gap) : "unknown"; }

std::string FormatPercent(double fraction) { return absl::StrFormat("%.1f%%", 100 * fraction); }

std::string TitleOf(const Timetable& timetable) {
  const Placement& placement = timetable.placement;
  const size_t slash = timetable.name.rfind('/');
  const std::string name =
      slash == std::string::npos ? timetable.name : timetable.name.substr(slash + 1);
  std::string text = absl::StrCat(name, ": ", Counted(placement.ranks(), "rank"), ", ",
                                  Counted(timetable.micro_batches, "micro-batch"));
  if (placement.stages() != placement.ranks())
    absl::StrAppend(&text, ", ", Counted(placement.stages(), "stage"));
  return text;
}

TimeUnit UnitOf(double makespan, bool seconds, bool ascii) {
  if (!seconds) return {"units of the costs", 1};
  for (const auto& [name, scale] :
       {std::pair{"s", 1.0}, std::pair{"ms", 1e-3}, std::pair{ascii ? "us" : "\u00b5s", 1e-6}}) {
    if (makespan >= scale) return {name, scale};
  }
  return {"ns", 1e-9};
}

std::vector<std::string> FactsOf(const Simulation& run, bool seconds, bool ascii) {
  return seconds ? ShortFactsOf(run, seconds, ascii) : FactsWith(run, FormatNumber);
}

std::vector<std::string> ShortFactsOf(const Simulation& run, bool seconds, bool ascii) {
  const TimeUnit unit = UnitOf(run.makespan, seconds, ascii);
  return FactsWith(run, [&](double time) {
    return absl::StrCat(FormatShort(time / unit.scale, kShortDigits), seconds ? " " : "",
                        seconds ? unit.name : "");
  });
}

std::vector<double> AxisTicks(double makespan, int most) {
  if (!(makespan > 0) || most < 1) return {0};
  const double least = makespan / most;
  const double power = std::pow(10, std::floor(std::log10(least)));
  double step = 10 * power;
  for (double multiple : {5.0, 2.0, 1.0}) {
    if (multiple * power >= least) step = multiple * power;
  }
  if (!(step > 0)) return {0};  // less than a double's smallest number
  std::vector<double> ticks;
  for (int i = 0; i * step <= makespan; ++i) ticks.push_back(i * step);
  return ticks;
}

std::vector<int> ChunkOfStage(const Placement& placement) {
  std::vector<int> seen(placement.ranks(), 0);
  std::vector<int> chunks;
  for (int rank : placement.rank_of_stage()) chunks.push_back(seen[rank]++);
  return chunks;
}

std::vector<Bar> BarsOf(const std::vector<TimedAction>& row,
                        const std::vector<int>& chunk_of_stage) {
  std::vector<Bar> bars;
  for (size_t i = 0; i < row.size(); ++i) {
    const Action& action = row[i].action;
    if (!TakesTime(action.op)) continue;
    const bool second = i > 0 && row[i - 1].action.overlaps_next;
    bars.push_back({row[i], chunk_of_stage[action.stage],
                    action.overlaps_next ? 0
                    : second             ? 1
                                         : -1});
  }
  return bars;
}

std::vector<BarKind> KindsIn(const Timetable& timetable) {
  std::vector<BarKind> kinds;
  for (const BarKind& kind : kBarKinds) {
    const bool used =
        std::any_of(timetable.rows.begin(), timetable.rows.end(), [&](const auto& row) {
          return std::any_of(row.begin(), row.end(),
                             [&](const Action& a) { return a.op == kind.op; });
        });
    if (used) kinds.push_back(kind);
  }
  return kinds;
}

}  // namespace sluice
