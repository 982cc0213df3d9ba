#ifndef SLUICE_SCHEDULES_RENDER_RENDER_H_
#define SLUICE_SCHEDULES_RENDER_RENDER_H_

#include <optional>
#include <string>
#include <vector>

#include "schedules/simulate/simulation.h"
#include "schedules/simulate/stage_costs.h"
#include "schedules/timetable.h"

namespace sluice {

struct TextOptions {
  int columns = 80;      // the picture is never wider
  bool colour = false;   // ANSI 256-colour backgrounds
  bool unicode = false;  // with colour: block elements, where a column stands for several bars
  bool seconds = false;  // times are seconds, not those of some unit
  int most_ranks = 64;   // with more ranks, one line stands for all those in the middle
};

// A Gantt chart for a terminal: one line per rank, time to the right, micro-batch numbers in the
// bars. Where there are more bars than columns, each column shows the kind of action that took most
// of its time; in colour, the two kinds that took most, one above the other.
std::string RenderText(const Simulation& simulation, const Timetable& timetable,
                       const TextOptions& options);

inline constexpr int kLeastSvgWidth = 320;

// What an SVG says beside its bars. Where a field is empty, the timetable and its simulation say
// it.
struct SvgOptions {
  // An empty title is none: no facts either, as a picture has whose caption says it all.
  std::optional<std::string> title = {};
  std::vector<std::string> facts = {};  // below the title: "makespan 33", "bubble 27.3%", ...
  // Pixels, at least kLeastSvgWidth; 0: as many as the bars need to show their numbers.
  int width = 0;
  bool seconds = false;                      // times are seconds, not those of some unit
  std::vector<std::string> rank_names = {};  // [rank] else "rank 0", "rank 1", ...
  std::vector<std::string> rank_notes = {};  // [rank] below its name: "layers 0-13"
  std::string peak_name = {};                // what `peaks` are
  std::vector<std::string> peaks = {};       // [rank]; else the most activations that it holds
};

// The same chart as a stand-alone SVG with vector text, a legend and the bubble shaded, in another
// way where a message is on its way; where an asynchronous table changes weights, a mark. Where a
// rank has more bars than there is room for, the chart has columns instead, and each column shows
// the shares of its time that the kinds of actions took.
std::string RenderSvg(const Simulation& simulation, const Timetable& timetable,
                      const SvgOptions& options = {});

// Chrome/Perfetto trace (JSON): one thread per rank, one complete event per action, an arrow (flow)
// for each result that another rank uses, and one counter per rank of the activations that it holds,
// or of their bytes where `costs` has them. The simulated times are read as seconds and written in
// microseconds.
std::string RenderTrace(const Simulation& simulation, const Timetable& timetable,
                        const StageCosts* costs = nullptr);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_RENDER_RENDER_H_
