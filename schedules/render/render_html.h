#ifndef SLUICE_SCHEDULES_RENDER_RENDER_HTML_H_
#define SLUICE_SCHEDULES_RENDER_RENDER_HTML_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "schedules/simulate/simulation.h"
#include "schedules/simulate/stage_costs.h"
#include "schedules/timetable.h"

namespace sluice {

// What one rank really did, read from the trace of a run. Times are in the unit of the simulation
// and count from the first start in the run.
struct MeasuredRun {
  std::string name;                            // for people: "run.json, step 7"
  std::vector<std::vector<TimedAction>> rows;  // [rank][position], in order of time
};

// One timetable of a page. The objects that it points to must outlive the call.
struct HtmlPanel {
  const Timetable* table = nullptr;
  const Simulation* run = nullptr;
  // If the costs have bytes, memory is shown in bytes instead of activations; if they have `send`,
  // the page says separately how long a message waited for its link.
  const StageCosts* costs = nullptr;
  std::optional<int> activation_limit;  // most activations a rank may hold
  std::vector<double> byte_limit;       // [rank] most bytes of activations, or empty
  std::optional<MeasuredRun>
      measured;         // drawn under the planned bars; has the same number of ranks
  bool fitted = false;  // the plan is a simulation with the measured run's own durations
};

struct HtmlOptions {
  bool seconds = false;  // times are seconds; otherwise in a unit without a name
};

// One HTML page that shows `panels` one above the other on one time axis: zoom and pan, a card for
// each action, memory curves, the critical path. It contains its style, script and data, so it
// works from a file without a network. Takes time linear in the actions, and 15 bytes per action
// before base64. schedules/viewer/README.md describes the scripts.
std::string RenderHtml(absl::Span<const HtmlPanel> panels, const HtmlOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_RENDER_RENDER_HTML_H_
