#ifndef SLUICE_SCHEDULES_SIMULATE_BOUND_H_
#define SLUICE_SCHEDULES_SIMULATE_BOUND_H_

#include <vector>

#include "schedules/simulate/stage_costs.h"
#include "schedules/timetable.h"

namespace sluice {

// No timetable of these stages on these ranks with `micro_batches` finishes earlier than this: the
// maximum over ranks of the least time before the rank can start, plus its total work, plus the
// least time after it can finish (see the .cc for the proof). `recomputes`: [stage] how many
// micro-batches each of these timetables rebuilds by a RECOMPUTE; empty: none.
double MakespanLowerBound(const Placement& placement, int micro_batches, const StageCosts& costs,
                          const std::vector<int>& recomputes = {});
// The same where ranks share a stage. `micro_batches`: [stage] how many the busiest rank of the stage
// has; `recomputes`: [stage] how many of these it rebuilds.
double MakespanLowerBound(const Placement& placement, std::vector<int> micro_batches,
                          const StageCosts& costs, const std::vector<int>& recomputes = {});

// How far `value` is above `bound`, as a share of it: infinite where only the value is above 0.
double GapOf(double value, double bound);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_SIMULATE_BOUND_H_
