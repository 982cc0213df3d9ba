#ifndef SLUICE_PIPELINE_TRAIN_TRACE_H_
#define SLUICE_PIPELINE_TRAIN_TRACE_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "pipeline/run/executor.h"

namespace sluice {

// One action that really ran.
struct TracedAction {
  int64_t step = 0;
  int rank = 0;  // of the world
  Action action;
  ActionTime time;
};

// The steps whose actions are kept: from `first` to `last`, both included.
struct TracedSteps {
  int64_t first = 1;
  int64_t last = std::numeric_limits<int64_t>::max();
  bool Has(int64_t step) const { return first <= step && step <= last; }
};

// Appends the last pass of `executor`, which began with step `first_step`, as far as its steps are
// among `steps`; a step has `step_micro_batches`.
void AppendTrace(const Executor& executor, int64_t first_step, int step_micro_batches,
                 const TracedSteps& steps, std::vector<TracedAction>* trace);

// Chrome/Perfetto trace (JSON): one thread per rank, one complete event per action, microseconds from
// the first start. Ranks of a second replica come after those of the first.
std::string FormatTrace(const std::vector<TracedAction>& trace, const Timetable& timetable);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_TRACE_H_
