#ifndef SLUICE_PIPELINE_TRACE_FORMAT_TRACE_H_
#define SLUICE_PIPELINE_TRACE_FORMAT_TRACE_H_

#include <string>
#include <vector>

#include "pipeline/compile/plan/run_plan.h"
#include "pipeline/trace/trace_event.h"
#include "pipeline/trace/trace_group.h"

namespace sluice {

// Chrome/Perfetto trace (JSON) of a run of `plan`, written as that of a planned timetable is
// (RenderTrace): one thread per rank of the world, and another one for what it does in the
// background; a complete event for each action, message, wait and phase; an arrow from each send to
// its receive; a counter of the bytes that each rank holds of its step region. Microseconds from
// the first start.
std::string FormatTrace(const std::vector<TraceEvent>& trace, const RunPlan& plan);
// The same of a run of several groups of ranks, one after the other. A rank has one thread in all of
// them. Marks lie across all threads; where there are several groups, each event has its group's
// number, so that steps that were taken again can be told apart.
std::string FormatTrace(const std::vector<TraceGroup>& groups);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRACE_FORMAT_TRACE_H_
