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

// What one rank really did, as a trace of a run tells it. Times in the same unit as the simulation,
// from the run's first start on.
struct MeasuredRun {
  std::string name;                            // for people: "run.json, step 7"
  std::vector<std::vector<TimedAction>> rows;  // [rank][position], in order of time
};

// One timetable of a page. What is pointed to must outlive the call.
struct HtmlPanel {
  const Timetable* table = nullptr;
  const Simulation* run = nullptr;
  // With bytes in it, memory is shown in bytes and not in activations; with `send`, what a message
  // waited for its link is told apart.
  const StageCosts* costs = nullptr;
  std::optional<int> activation_limit;  // most activations a rank may hold
  std::vector<double> byte_limit;       // [rank] most bytes of activations, or empty
  std::optional<MeasuredRun> measured;  // drawn under the planned bars; as many ranks
};

struct HtmlOptions {
  bool seconds = false;  // times are seconds; else some unit without a name
};

// One HTML page that shows `panels` one above the other on one time axis: zoom and pan, a card for
// each action, memory curves, the critical path. It holds all it needs (style, script, data), so it
// works from a file without a network. Linear in the actions; 15 bytes each before base64.
// schedules/viewer/README.md describes what is inside.
std::string RenderHtml(absl::Span<const HtmlPanel> panels, const HtmlOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_RENDER_RENDER_HTML_H_
