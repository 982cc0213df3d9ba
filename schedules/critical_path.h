#ifndef SLUICE_SCHEDULES_CRITICAL_PATH_H_
#define SLUICE_SCHEDULES_CRITICAL_PATH_H_

#include <vector>

#include "schedules/simulate.h"

namespace sluice {

// A chain of actions from time 0 to the makespan, each of which starts when the one before it on
// the chain ends (plus the edge's latency when it comes from another rank). Shortening anything
// that is not on such a chain gains nothing.
std::vector<TimedAction> FindCriticalPath(const Simulation& simulation, const Placement& placement,
                                          const StageCosts& costs);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_CRITICAL_PATH_H_
