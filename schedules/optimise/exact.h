#ifndef SLUICE_SCHEDULES_OPTIMISE_EXACT_H_
#define SLUICE_SCHEDULES_OPTIMISE_EXACT_H_

#include <cstdint>

#include "schedules/optimise/problem.h"
#include "schedules/optimise/schedule.h"
#include "schedules/optimise/search.h"

namespace sluice::optimise {

struct ExactResult {
  Schedule better;         // value kNever: nothing better than `upper` was found
  bool exhausted = false;  // proved: nothing is better than `better` and `upper`
  int64_t nodes = 0;
};

// Branch and bound over all active schedules, in which no action could run earlier without delaying
// another one; one of them is optimal. Branches as Giffler and Thompson (1960): of all actions that
// could come next, take the one that would end first; one of the actions on its rank that can start
// before that end comes next on this rank. (An F that starts earlier takes memory from the F of
// other stages of the rank; where that can matter, a branch puts the F off.) Prefixes are pruned by
// PartialOrder::Bound and by dominance. Gives up after `most_nodes` prefixes or at the deadline.
ExactResult SearchExactly(const Problem& problem, double lower, double upper, int64_t most_nodes,
                          const Deadline& deadline);

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_EXACT_H_
