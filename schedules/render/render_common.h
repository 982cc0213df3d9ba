#ifndef SLUICE_SCHEDULES_RENDER_RENDER_COMMON_H_
#define SLUICE_SCHEDULES_RENDER_RENDER_COMMON_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedules/simulate/simulation.h"
#include "schedules/timetable.h"

// Numbers, names and lists that all pictures share.
namespace sluice {

// "33", "49.6", "1,432,709": ten significant digits, with thousands separated from 10,000 on.
std::string FormatNumber(double value);
// The same with at most `digits` significant digits behind the point: whole numbers stay whole.
std::string FormatShort(double value, int digits);
// "27.3%"
std::string FormatPercent(double fraction);
// The same of a simulation's gap; "unknown" where the bound says nothing.
std::string FormatGap(double gap);
// "1f1b: 4 ranks, 8 micro-batches", with the stages where there are several per rank; of a file's
// name only what follows the last slash.
std::string TitleOf(const Timetable& timetable);

// What times are shown in, and how much of the costs' own unit that is.
struct TimeUnit {
  std::string name;
  double scale = 1;
};
// The largest of "s", "ms", "\u00b5s" (in ASCII "us") and "ns" that leaves the makespan at least 1;
// "units of the costs" where times are not `seconds`.
TimeUnit UnitOf(double makespan, bool seconds, bool ascii = false);

// "makespan 33", "bubble 27.3%", "span bubble 27.3%", "bound 27", "gap 22.2%". Where times are
// seconds they have that unit and four significant digits: "makespan 90.05 ms".
std::vector<std::string> FactsOf(const Simulation& run, bool seconds = false, bool ascii = false);
// The same with times of four significant digits in any case.
std::vector<std::string> ShortFactsOf(const Simulation& run, bool seconds = false,
                                      bool ascii = false);

// A JSON string: names come from files and may hold anything. "<" is escaped, so that the text can
// stand in an HTML page; bytes that are not UTF-8 become U+FFFD.
std::string JsonQuoted(absl::string_view text);
// Bytes of the character at the start of `text`, which has one; 0 when it is not UTF-8.
size_t CharacterLength(absl::string_view text);
// Seventeen significant digits where they are needed: reads back as the same number.
std::string JsonNumber(double value);

// Round times 0, step, 2 step, ... up to `makespan`, at most `most` steps of 1, 2 or 5 times a
// power of ten.
std::vector<double> AxisTicks(double makespan, int most);

// Which of a rank's stages `stage` is, counted from 0.
std::vector<int> ChunkOfStage(const Placement& placement);

// A compute action (or recomputation) as drawn.
struct Bar {
  TimedAction timed;
  int chunk = 0;
  int half = -1;  // 0 or 1 for the halves of an overlapped pair
};
std::vector<Bar> BarsOf(const std::vector<TimedAction>& row,
                        const std::vector<int>& chunk_of_stage);

// The kinds of bars, in the order of legends.
struct BarKind {
  Op op;
  const char* name;
};
constexpr BarKind kBarKinds[] = {{Op::kForward, "forward"},
                                 {Op::kBackward, "backward"},
                                 {Op::kInputGrad, "input gradient"},
                                 {Op::kWeightGrad, "weight gradient"},
                                 {Op::kRecompute, "recompute"}};
// The kinds of kBarKinds that `timetable` uses.
std::vector<BarKind> KindsIn(const Timetable& timetable);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_RENDER_RENDER_COMMON_H_
