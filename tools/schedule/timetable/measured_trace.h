#ifndef SLUICE_TOOLS_SCHEDULE_TIMETABLE_MEASURED_TRACE_H_
#define SLUICE_TOOLS_SCHEDULE_TIMETABLE_MEASURED_TRACE_H_

#include <string>

#include "absl/status/statusor.h"
#include "schedules/render/render_html.h"

// The Chrome trace of a real run (`sluice train --trace`, pipeline/train/trace.h) beside the
// timetable that it ran.
namespace sluice {

// The step of the median duration in the trace at `path`; times in seconds from its first start.
// InvalidArgument names the file, and the first action that the trace has and `table` has not, or
// the other way round.
absl::StatusOr<MeasuredRun> ReadMeasuredRun(const std::string& path, const Timetable& table);

// What each op of each stage took: the median over the step's micro-batches, in seconds; messages
// cost nothing. So the simulation shows what the schedule alone makes of these durations.
StageCosts FittedCosts(const MeasuredRun& run, const Placement& placement);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_TIMETABLE_MEASURED_TRACE_H_
