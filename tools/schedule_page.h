#ifndef SLUICE_TOOLS_SCHEDULE_PAGE_H_
#define SLUICE_TOOLS_SCHEDULE_PAGE_H_

#include <string>

#include "absl/status/statusor.h"
#include "tools/schedule_source.h"

namespace sluice {

// `flags` for schedule `name`, one of several that they are meant for: without chunks and groups
// where it has none.
ScheduleFlags FlagsFor(const std::string& name, ScheduleFlags flags);

// The HTML page of `sluice schedule show --format html`: `table` with the costs that `flags` ask
// for, the schedule --against it, and what --measured really took. Without costs of its own, a
// measured run is compared to the timetable simulated with the run's own durations. `bound` as for
// UseBound, of `table`.
absl::StatusOr<std::string> SchedulePage(const Timetable& table, const ScheduleFlags& flags,
                                         double bound);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_PAGE_H_
