#ifndef SLUICE_TOOLS_SCHEDULE_TIMETABLE_MEASURED_TRACE_H_
#define SLUICE_TOOLS_SCHEDULE_TIMETABLE_MEASURED_TRACE_H_

#include <string>

#include "absl/status/statusor.h"
#include "schedules/render/render_html.h"

// The Chrome trace of a real run (`sluice train --trace`, pipeline/trace), matched with the
// timetable of the run.
namespace sluice {

// The step with the median duration in the trace at `path`; of several replicas of the pipeline the
// one that was slowest in that step. Times in seconds from its first start.
// InvalidArgument names the file and the first action that only the trace has, or only `table`.
absl::StatusOr<MeasuredRun> ReadMeasuredRun(const std::string& path, const Timetable& table);

// The cost of each op on each stage: the median over the step's micro-batches, in seconds; messages
// cost nothing. So the simulation shows the effect of the schedule alone with these durations.
StageCosts FittedCosts(const MeasuredRun& run, const Placement& placement);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_TIMETABLE_MEASURED_TRACE_H_
