#ifndef SLUICE_TOOLS_TRAIN_TRAIN_TIMETABLE_H_
#define SLUICE_TOOLS_TRAIN_TRAIN_TIMETABLE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "schedules/timetable.h"
#include "tools/train/train_question.h"

namespace sluice {

// The timetable that --schedule names, for the micro-batches of one step. InvalidArgument where a
// file's ranks, micro-batches or placement are not what was asked; with the exit code of an
// invalid timetable where a file's table is not sound. With --stage-replicas it has a row a stage:
// those of a file, or as NarrowTimetable makes them.
absl::StatusOr<Timetable> StepTimetable(const TimetableChoice& choice);

// What the run executes: `step` itself; of an asynchronous schedule, which does not drain between
// steps, one table over as many steps as the run has, or as are reported and kept at a time.
absl::StatusOr<Timetable> RunTimetable(const TimetableChoice& choice, const TrainOptions& options,
                                       const Timetable& step);

// RunRequest::sum_groups: as --sum-groups says, 0 where it says nothing; but for schedules with
// several copies of the model, which are such groups already.
int GroupsOf(std::optional<int> sum_groups, const Timetable& step);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_TRAIN_TIMETABLE_H_
