#ifndef SLUICE_TOOLS_SCHEDULE_SCHEDULE_AUTO_H_
#define SLUICE_TOOLS_SCHEDULE_SCHEDULE_AUTO_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schedules/generators/catalogue.h"
#include "schedules/optimise/optimise.h"
#include "tools/schedule/schedule_source.h"

namespace sluice {

// The name under which the command line knows the optimiser.
constexpr char kAuto[] = "auto";

// What `auto` is asked for: the placement (--placement, -v; one stage a rank for `-v auto`), the
// costs, the limits (--memory-limit, and device_memory of the costs), --time-limit. InvalidArgument
// names the flag.
absl::StatusOr<OptimiseRequest> AutoRequest(const ScheduleFlags& flags);

// The best timetable found; with `-v auto` over ways to cut the stages too, their costs divided
// evenly and --memory-limit counting whole stages. An error carries exit code 3 when nothing keeps
// the limits.
absl::StatusOr<OptimisedTimetable> AutoTimetable(const ScheduleFlags& flags);

// `flags` as they are meant for a timetable that they led to: costs and limits of what the stages
// were cut into.
ScheduleFlags FlagsOf(const OptimisedTimetable& best, ScheduleFlags flags);

// Fails with exit code 3 when a rank of `run` holds more than --memory-limit; `name` is what ran.
absl::Status CheckMemoryLimit(const std::string& name, const Simulation& run,
                              const ScheduleFlags& flags);

// What `schedule list` says of it; it has no generator.
CatalogueEntry AutoEntry();

// Puts a better bound on the makespan into `run` (0: none is known).
void UseBound(double bound, Simulation& run);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_SCHEDULE_AUTO_H_
