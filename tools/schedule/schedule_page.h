#ifndef SLUICE_TOOLS_SCHEDULE_SCHEDULE_PAGE_H_
#define SLUICE_TOOLS_SCHEDULE_SCHEDULE_PAGE_H_

#include <deque>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "schedules/render/render_html.h"
#include "tools/schedule/schedule_source.h"

namespace sluice {

// `flags` for schedule `name`, one of several that they are meant for: without chunks and groups
// where it has none.
ScheduleFlags FlagsFor(const std::string& name, ScheduleFlags flags);

// A timetable as it is shown, and what ran.
struct ShownSchedule {
  Timetable table;
  ScheduleCosts costs;
  Simulation run;
  std::optional<MeasuredRun> measured;
};

// Reads what really ran, where --measured names it, and takes its durations where no flag says
// others.
absl::Status TakeMeasured(const ScheduleFlags& flags, ShownSchedule* shown);

// One page of all of them, one above the other.
std::string PageOf(const std::deque<ShownSchedule>& shown, const ScheduleFlags& flags);

// The HTML page of `sluice schedule show --format html`: `table` with the costs that `flags` ask
// for, the schedule --against it, and what --measured really took. Without costs of its own, a
// measured run is compared to the timetable simulated with the run's own durations. `bound` as for
// UseBound, of `table`.
absl::StatusOr<std::string> SchedulePage(const Timetable& table, const ScheduleFlags& flags,
                                         double bound);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_SCHEDULE_PAGE_H_
