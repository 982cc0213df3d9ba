#ifndef SLUICE_SCHEDULES_SIMULATE_CRITICAL_PATH_H_
#define SLUICE_SCHEDULES_SIMULATE_CRITICAL_PATH_H_

#include <optional>
#include <vector>

#include "schedules/simulate/simulate.h"
#include "schedules/stage_deal.h"

namespace sluice {

// Where an action stands in a table or a simulation.
struct Spot {
  int rank = -1;
  size_t position = 0;
  friend bool operator==(const Spot&, const Spot&) = default;
};

// Why an action did not start earlier.
struct Cause {
  enum class Kind {
    kStart,    // it starts with the run: it waited for nothing
    kRank,     // its rank was busy with the action before it
    kMessage,  // the result of `after` on another rank was on its way
    kLink,     // its input waited for its turn on a link that was busy with the result of `after`
  };
  Kind kind = Kind::kStart;
  Spot after;          // what ended last of all that it waited for
  double idle = 0;     // how long the rank did nothing before it
  double on_link = 0;  // from the end of `after` to its start: latency and transfer
};

// "start", "rank", "message" or "link".
const char* CauseName(Cause::Kind kind);

// Why the action at `spot` of `simulation` (or the pair that it is a half of) started when it did.
// Walks back over the row of the producer as far as the message had to wait for others.
Cause FindCause(const Simulation& simulation, const Placement& placement, const StageCosts& costs,
                Spot spot);

// Fills critical_path and critical_path_why of a simulation whose rows are complete: a chain of
// actions from time 0 to the end of the last one, each of which starts when the one before it on
// the chain ends (plus, when it comes from another rank, the time on the link). Shortening anything
// that is not on such a chain gains nothing. Where ranks share stages, `deal` says whose row has
// what, and `placement` is Placement::OfFirstRanks.
void FindCriticalPath(const Placement& placement, const StageCosts& costs, Simulation* simulation,
                      const StageDeal* deal = nullptr);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_SIMULATE_CRITICAL_PATH_H_
