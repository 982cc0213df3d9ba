#ifndef SLUICE_TOOLS_TRAIN_TIMETABLE_H_
#define SLUICE_TOOLS_TRAIN_TIMETABLE_H_

#include "absl/status/statusor.h"
#include "schedules/timetable.h"
#include "tools/train_flags.h"

namespace sluice {

// The timetable that --schedule names, for the micro-batches of one step. InvalidArgument where a
// file's ranks, micro-batches or placement are not what the flags say; with the exit code of an
// invalid timetable where a file's table is not sound.
absl::StatusOr<Timetable> StepTimetable(const TrainFlags& flags);

// What the run executes: `step` itself; of an asynchronous schedule, which does not drain between
// steps, one table over as many steps as the run has, or as are reported and kept at a time.
absl::StatusOr<Timetable> RunTimetable(const TrainFlags& flags, const Timetable& step);

// RunRequest::sum_groups: as --sum-groups says, 0 where it says nothing; but for schedules with
// several copies of the model, which are such groups already.
int GroupsOf(const TrainFlags& flags, const Timetable& step);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_TIMETABLE_H_
