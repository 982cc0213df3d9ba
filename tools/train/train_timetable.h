#ifndef SLUICE_TOOLS_TRAIN_TRAIN_TIMETABLE_H_
#define SLUICE_TOOLS_TRAIN_TRAIN_TIMETABLE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "schedules/timetable.h"
#include "tools/train/train_flags.h"

namespace sluice {

// What --stage-replicas says, [stage]; empty where it says nothing. InvalidArgument where it is no
// list of whole numbers from 1, or of another length than --stages.
absl::StatusOr<std::vector<int>> StageReplicasOf(const TrainFlags& flags);

// The timetable that --schedule names, for the micro-batches of one step. InvalidArgument where a
// file's ranks, micro-batches or placement are not what the flags say; with the exit code of an
// invalid timetable where a file's table is not sound. With --stage-replicas it has a row a stage:
// those of a file, or as NarrowTimetable makes them.
absl::StatusOr<Timetable> StepTimetable(const TrainFlags& flags);

// What the run executes: `step` itself; of an asynchronous schedule, which does not drain between
// steps, one table over as many steps as the run has, or as are reported and kept at a time.
absl::StatusOr<Timetable> RunTimetable(const TrainFlags& flags, const Timetable& step);

// RunRequest::sum_groups: as --sum-groups says, 0 where it says nothing; but for schedules with
// several copies of the model, which are such groups already.
int GroupsOf(const TrainFlags& flags, const Timetable& step);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_TRAIN_TIMETABLE_H_
