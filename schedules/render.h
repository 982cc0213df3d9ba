#ifndef SLUICE_SCHEDULES_RENDER_H_
#define SLUICE_SCHEDULES_RENDER_H_

#include <string>

#include "schedules/simulate.h"

namespace sluice {

struct TextOptions {
  int columns = 80;     // the picture is never wider
  bool colour = false;  // ANSI 256-colour backgrounds
};

// A Gantt chart for a terminal: a line a rank, time to the right, micro-batch numbers in the bars.
std::string RenderText(const Simulation& simulation, const Timetable& timetable,
                       const TextOptions& options);

// The same as a stand-alone SVG with vector text, a legend and the bubble shaded.
std::string RenderSvg(const Simulation& simulation, const Timetable& timetable);

// Chrome/Perfetto trace (JSON): one thread a rank, one complete event an action; times in
// microseconds.
std::string RenderTrace(const Simulation& simulation, const Timetable& timetable);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_RENDER_H_
