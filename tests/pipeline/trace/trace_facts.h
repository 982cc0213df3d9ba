#ifndef SLUICE_TESTS_PIPELINE_TRACE_TRACE_FACTS_H_
#define SLUICE_TESTS_PIPELINE_TRACE_TRACE_FACTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pipeline/compile/plan/run_plan.h"
#include "pipeline/trace/trace_event.h"
#include "pipeline/trace/trace_group.h"

namespace sluice {

// What a viewer would read from the trace of a run, once it has been written and parsed.
struct TraceFacts {
  std::map<std::string, int> categories;                 // of slices: how many
  std::map<std::string, int> names;                      // likewise
  std::map<int, std::string> threads;                    // their names
  std::map<int64_t, std::map<std::string, int>> groups;  // [group] actions by name, of several
  std::vector<std::string> marks;                        // across all threads
  int arrows = 0;
  int early_arrows = 0;           // that end before they begin
  std::vector<double> most_held;  // [rank of the world] the counter's highest value
  std::vector<double> held;       // [rank of the world] its last one
  // What is wrong with it: slices of a thread that overlap without one being inside the other, ends
  // of arrows without a partner or outside the send and its receive.
  std::vector<std::string> defects;
};
TraceFacts ReadTrace(const std::vector<TraceEvent>& trace, const RunPlan& plan);
// `ranks`: of the largest group.
TraceFacts ReadTrace(const std::vector<TraceGroup>& groups, int ranks);

// The most bytes of its step region that rank `world_rank` ever holds in training, as the plan has
// it.
int64_t PlannedPeak(const RunPlan& plan, int world_rank);

}  // namespace sluice

#endif  // SLUICE_TESTS_PIPELINE_TRACE_TRACE_FACTS_H_
