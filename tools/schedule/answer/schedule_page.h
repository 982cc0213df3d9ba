#ifndef SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_PAGE_H_
#define SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_PAGE_H_

#include <deque>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schedules/render/render_html.h"
#include "tools/schedule/timetable/priced_timetable.h"

namespace sluice {

// A timetable as it is shown, with its simulation and a measured run.
struct ShownSchedule {
  Timetable table;
  ScheduleCosts costs;
  std::optional<int> activation_limit;  // (stage, micro-batch) activations that a rank may hold
  Simulation run;
  std::optional<MeasuredRun> measured;
  bool fitted = false;  // the costs are `measured`'s own durations
};

// Reads the measured run from the trace in the file `measured` (empty: none), and uses its
// durations where no costs are given.
absl::Status TakeMeasured(const std::string& measured, const GivenCosts& given,
                          ShownSchedule* shown);

// One page with all of them, one above the other. Times are in seconds where the costs are, and
// where there is a measured run.
std::string PageOf(const std::deque<ShownSchedule>& shown);

// The HTML page of `sluice schedule show --format html`: `first`, the schedule of --against, and
// the run of --measured. Without given costs, a measured run is compared to the timetable simulated
// with the run's own durations. The schedule of --against then has these durations too, or those of
// a plan that is first; InvalidArgument where that is not possible, so that units would be mixed.
absl::StatusOr<std::string> SchedulePage(const PricedTimetable& first,
                                         const ShowQuestion& question);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_PAGE_H_
