#ifndef SLUICE_SCHEDULES_OPTIMISE_EXACT_H_
#define SLUICE_SCHEDULES_OPTIMISE_EXACT_H_

#include <cstdint>

#include "schedules/optimise/dispatch.h"
#include "schedules/optimise/problem.h"
#include "schedules/optimise/search.h"

namespace sluice::optimise {

struct ExactResult {
  Schedule better;         // value kNever: nothing better than `upper` was found
  bool exhausted = false;  // nothing better than the best of both exists
  int64_t nodes = 0;
};

// Branch and bound over all active schedules: those in which no action could run earlier without
// delaying another one; one of them is optimal. After Giffler and Thompson (1960): of all actions
// that could come next, take the one that would end first; some action on its rank that can start
// before that end comes next on this rank. (An earlier start of F takes memory away from the F of
// the rank's other stages; where both matter, that F may also be put off.) Prefixes are cut by
// PartialOrder::Bound and by dominance. Gives up after `most_nodes` prefixes or at the deadline.
ExactResult SearchExactly(const Problem& problem, double lower, double upper, int64_t most_nodes,
                          const Deadline& deadline);

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_EXACT_H_
