#ifndef SLUICE_TOOLS_TRAIN_TRAIN_TIMETABLE_H_
#define SLUICE_TOOLS_TRAIN_TRAIN_TIMETABLE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "schedules/simulate/stage_costs.h"
#include "schedules/timetable.h"
#include "tools/train/train_question.h"

namespace sluice {

// The timetable that --schedule names, for the micro-batches of one step. InvalidArgument where a
// file's ranks, micro-batches or placement are not the requested ones; with the exit code of an
// invalid timetable where a file's table is not sound. With --stage-replicas it has one row per
// stage: those of a file, or those that NarrowTimetable makes.
absl::StatusOr<Timetable> StepTimetable(const TimetableChoice& choice);

// The same for schedule "auto", where it is known what its stages cost.
absl::StatusOr<Timetable> OptimisedStep(const TimetableChoice& choice, const StageCosts& costs);

// The timetable that the run executes: `step` itself; for an asynchronous schedule, which does not
// drain between steps, one table over all steps of the run, or over those between two reports or
// saves. A file's table is no rule for more steps: it drains after each.
absl::StatusOr<Timetable> RunTimetable(const TimetableChoice& choice, const TrainOptions& options,
                                       const Timetable& step);

// RunRequest::sum_groups: the value of --sum-groups, 0 where it is not given; except for schedules
// with several copies of the model, each of which is such a group already.
int GroupsOf(std::optional<int> sum_groups, const Timetable& step);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_TRAIN_TIMETABLE_H_
