#ifndef SLUICE_SCHEDULES_SIMULATE_MEMORY_PROFILE_H_
#define SLUICE_SCHEDULES_SIMULATE_MEMORY_PROFILE_H_

#include <vector>

#include "schedules/simulate/simulation.h"
#include "schedules/simulate/stage_costs.h"
#include "schedules/timetable.h"

namespace sluice {

// Fills peak_activations and, where `costs` has bytes, peak_bytes: no times are needed, since what
// a rank holds changes in the order of its row.
void MeasureMemory(const Timetable& timetable, const StageCosts& costs, Simulation* simulation);

// What a rank holds from `time` until the next point.
struct MemoryPoint {
  double time = 0;
  int activations = 0;  // (stage, micro-batch) pairs
  double bytes = 0;     // 0 where the costs have none
};

// The memory of one rank over time, given its simulated row: one point at time 0 and one wherever
// the memory changes, in ascending order of time. The largest values are the rank's peaks.
std::vector<MemoryPoint> MemoryOverTime(const std::vector<TimedAction>& row,
                                        const StageCosts& costs);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_SIMULATE_MEMORY_PROFILE_H_
