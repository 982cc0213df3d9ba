#ifndef SLUICE_TOOLS_SCHEDULE_SCHEDULE_DEALT_H_
#define SLUICE_TOOLS_SCHEDULE_SCHEDULE_DEALT_H_

#include "absl/status/statusor.h"
#include "tools/schedule/schedule_page.h"

namespace sluice {

// A schedule whose stages several ranks share.
struct DealtSchedule {
  Timetable table;      // a row a stage, as `sluice train` takes it
  ShownSchedule shown;  // a row a rank
};

// `flags.what` with as many ranks a stage as --stage-replicas says: a name of the catalogue, auto,
// or a FILE.csv with a row a stage. Where no file says what stages cost, each does what --cost says
// times its ranks: all ranks do the same work. InvalidArgument names the flag that does not fit; an
// error carries exit code 4 where the file is not sound, 3 where --memory-limit is not kept.
absl::StatusOr<DealtSchedule> DealSchedule(const ScheduleFlags& flags);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_SCHEDULE_DEALT_H_
