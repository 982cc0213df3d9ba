#ifndef SLUICE_SCHEDULES_SIMULATE_CRITICAL_PATH_H_
#define SLUICE_SCHEDULES_SIMULATE_CRITICAL_PATH_H_

#include "schedules/simulate/simulation.h"
#include "schedules/simulate/stage_costs.h"
#include "schedules/stage_deal.h"

namespace sluice {

// "start", "rank", "message" or "link".
const char* CauseName(Cause::Kind kind);

// Why the action at `spot` of `simulation` (or the overlapped pair that it belongs to) started when
// it did. Time: linear in the messages that its input had to wait for.
Cause FindCause(const Simulation& simulation, const Placement& placement, const StageCosts& costs,
                Spot spot);

// Fills critical_path and critical_path_why of a simulation whose rows are complete: a chain of
// actions from time 0 to the end of the last one, each of which starts when the one before it on
// the chain ends (plus, when it comes from another rank, the time on the link). Shortening anything
// that is not on such a chain gains nothing. Where ranks share stages, `deal` says which rank runs
// which micro-batch, and `placement` is Placement::OfFirstRanks.
void FindCriticalPath(const Placement& placement, const StageCosts& costs, Simulation* simulation,
                      const StageDeal* deal = nullptr);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_SIMULATE_CRITICAL_PATH_H_
