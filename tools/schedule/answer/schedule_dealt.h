#ifndef SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_DEALT_H_
#define SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_DEALT_H_

#include "absl/status/statusor.h"
#include "schedules/csv.h"
#include "tools/schedule/answer/schedule_page.h"

namespace sluice {

// A schedule whose stages several ranks share.
struct DealtSchedule {
  Timetable table;      // a row per stage, as `sluice train` takes it
  LineEnd line_end;     // of the file that it is from
  ShownSchedule shown;  // a row per rank
};

// `question.what` with as many ranks per stage as --stage-replicas says: a name of the catalogue,
// auto, or a FILE.csv with a row per stage. Where no file says what stages cost, each costs what
// --cost says times its ranks: all ranks do the same work. InvalidArgument names the flag that does
// not fit; an error carries exit code 4 where the file is not sound, 3 where --memory-limit is not
// kept.
absl::StatusOr<DealtSchedule> DealSchedule(const ShowQuestion& question);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_DEALT_H_
