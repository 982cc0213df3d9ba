#ifndef SLUICE_TOOLS_SCHEDULE_TIMETABLE_SCHEDULE_AUTO_H_
#define SLUICE_TOOLS_SCHEDULE_TIMETABLE_SCHEDULE_AUTO_H_

#include <optional>

#include "absl/status/statusor.h"
#include "schedules/generators/catalogue.h"
#include "schedules/optimise/optimise.h"
#include "tools/schedule/timetable/priced_timetable.h"

namespace sluice {

// The request for the optimiser: the placement (--placement, -v; one stage per rank for `-v auto`),
// the costs, the limits (--memory-limit, and device_memory of the costs), --time-limit.
// InvalidArgument names the flag.
absl::StatusOr<OptimiseRequest> AutoRequest(const ScheduleQuestion& asked);

// The best timetable found. With `-v auto` the ways to cut the stages are searched too: their costs
// are divided evenly, and --memory-limit counts whole stages.
struct AutoAnswer {
  OptimisedTimetable best;
  ScheduleCosts costs;                  // of the stages of `best`
  std::optional<int> activation_limit;  // of these stages
};
// An error carries exit code 3 when no timetable keeps the limits.
absl::StatusOr<AutoAnswer> AnswerAuto(const ScheduleQuestion& asked);
// The same answer as a table that can be simulated again.
absl::StatusOr<PricedTimetable> AutoTimetable(const ScheduleQuestion& asked);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_TIMETABLE_SCHEDULE_AUTO_H_
