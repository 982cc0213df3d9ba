#ifndef SLUICE_PIPELINE_TRACE_TRACE_GROUP_H_
#define SLUICE_PIPELINE_TRACE_TRACE_GROUP_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/compile/plan/run_plan.h"
#include "pipeline/trace/trace_event.h"

namespace sluice {

// A moment at which ranks of a run came or went.
struct TraceMark {
  int64_t time = 0;  // nanoseconds on the clock of the events
  std::string text;
};

// Ranks that have trained together, from one change of membership to the next, and what a trace says
// of their plan.
struct TraceGroup {
  int64_t number = 1;  // of the run's groups, from 1
  std::string schedule;
  int replicas = 1;                     // of the pipeline
  std::vector<std::string> ranks;       // [rank of the world] its name
  std::set<std::pair<int, int>> split;  // stages and micro-batches whose backward is I and W
  std::vector<TraceMark> marks = {};    // before the group's first step
  std::vector<TraceEvent> events = {};  // of all ranks, in any order

  int ranks_per_replica() const { return static_cast<int>(ranks.size()) / replicas; }
};

// Of ranks that run `plan`; without events.
TraceGroup TraceGroupOf(const RunPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRACE_TRACE_GROUP_H_
