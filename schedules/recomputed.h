#ifndef SLUICE_SCHEDULES_RECOMPUTED_H_
#define SLUICE_SCHEDULES_RECOMPUTED_H_

#include <set>
#include <utility>

#include "schedules/simulate/simulation.h"

namespace sluice {

inline const Action& ActionOf(const Action& action) { return action; }
inline const Action& ActionOf(const TimedAction& timed) { return timed.action; }

// (stage, micro-batch) pairs whose activations are dropped after F and rebuilt by a RECOMPUTE.
using Recomputed = std::set<std::pair<int, int>>;

// The recomputed pairs of a row of actions, with or without times.
template <typename Row>
Recomputed RecomputedIn(const Row& row) {
  Recomputed found;
  for (const auto& item : row) {
    const Action& action = ActionOf(item);
    if (action.op == Op::kRecompute) found.insert({action.stage, action.micro_batch});
  }
  return found;
}

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_RECOMPUTED_H_
