#ifndef SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_DEALT_H_
#define SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_DEALT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schedules/csv.h"
#include "tools/schedule/answer/schedule_page.h"

namespace sluice {

// A schedule whose stages several ranks share.
struct DealtSchedule {
  Timetable table;      // one row per stage, as `sluice train` takes it
  LineEnd line_end;     // of the file that it was read from
  ShownSchedule shown;  // one row per rank
};

// `question.what` with the numbers of ranks per stage of --stage-replicas: a name of the catalogue,
// auto, or a FILE.csv with one row per stage. Without a file of costs, a stage costs --cost times
// the number of its ranks, so that all ranks do the same work. InvalidArgument names the flag that
// does not fit; an error carries exit code 4 where the file is not sound, 3 where --memory-limit is
// not kept.
absl::StatusOr<DealtSchedule> DealSchedule(const ShowQuestion& question);

// The InvalidArgument of who asks for PyTorch's compute_comms format (--format comms-csv) where
// several ranks share a stage.
absl::Status NoCommsOfSharedStages();

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_DEALT_H_
