#ifndef SLUICE_SCHEDULES_RENDER_RENDER_H_
#define SLUICE_SCHEDULES_RENDER_RENDER_H_

#include <string>

#include "schedules/simulate/simulate.h"

namespace sluice {

struct TextOptions {
  int columns = 80;      // the picture is never wider
  bool colour = false;   // ANSI 256-colour backgrounds
  bool unicode = false;  // with colour: block elements, where a column stands for several bars
  int most_ranks = 64;   // of more, those in the middle are left out, with a line that says so
};

// A Gantt chart for a terminal: a line a rank, time to the right, micro-batch numbers in the bars.
// Where there are more bars than columns, a column shows what took most of its time; in colour, the
// two kinds that did, one above the other.
std::string RenderText(const Simulation& simulation, const Timetable& timetable,
                       const TextOptions& options);

// The same as a stand-alone SVG with vector text, a legend and the bubble shaded; thousands of bars
// a rank become columns, each showing what its time is made of.
std::string RenderSvg(const Simulation& simulation, const Timetable& timetable);

// Chrome/Perfetto trace (JSON): one thread a rank, one complete event an action, an arrow (flow)
// for each result that another rank uses, and a counter a rank of the activations that it holds, or
// of their bytes where `costs` has them. Times in microseconds, those of the simulation being
// seconds.
std::string RenderTrace(const Simulation& simulation, const Timetable& timetable,
                        const StageCosts* costs = nullptr);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_RENDER_RENDER_H_
