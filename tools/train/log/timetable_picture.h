#ifndef SLUICE_TOOLS_TRAIN_LOG_TIMETABLE_PICTURE_H_
#define SLUICE_TOOLS_TRAIN_LOG_TIMETABLE_PICTURE_H_

#include <string>

#include "absl/status/statusor.h"
#include "pipeline/compile/plan/run_plan.h"
#include "schedules/simulate/stage_costs.h"

namespace sluice {

// What the ranks of one pipeline of the run compute when, as SVG, with their layers and their bytes.
// `costs`: of all stages, as TrainJob has them; the longest forward is the unit of time.
// InvalidArgument where they do not fit the run's timetable.
absl::StatusOr<std::string> DrawTimetable(const RunPlan& plan, StageCosts costs);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_LOG_TIMETABLE_PICTURE_H_
