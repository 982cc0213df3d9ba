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

// A timetable as it is shown, and what ran.
struct ShownSchedule {
  Timetable table;
  ScheduleCosts costs;
  std::optional<int> activation_limit;  // (stage, micro-batch) activations that a rank may hold
  Simulation run;
  std::optional<MeasuredRun> measured;
};

// Reads what really ran from the trace in the file `measured` (empty: nothing ran), and takes its
// durations where none are given.
absl::Status TakeMeasured(const std::string& measured, const GivenCosts& given,
                          ShownSchedule* shown);

// One page of all of them, one above the other.
std::string PageOf(const std::deque<ShownSchedule>& shown);

// The HTML page of `sluice schedule show --format html`: `first`, the schedule --against it, and
// what --measured really took. Without costs of its own, a measured run is compared to the
// timetable simulated with the run's own durations.
absl::StatusOr<std::string> SchedulePage(const PricedTimetable& first,
                                         const ShowQuestion& question);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_PAGE_H_
