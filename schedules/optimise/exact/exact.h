#ifndef SLUICE_SCHEDULES_OPTIMISE_EXACT_EXACT_H_
#define SLUICE_SCHEDULES_OPTIMISE_EXACT_EXACT_H_

#include <cstdint>

#include "schedules/optimise/problem/problem.h"
#include "schedules/optimise/problem/schedule.h"
#include "schedules/optimise/search/search.h"

namespace sluice::optimise {

struct ExactResult {
  Schedule better;   // value kNever: nothing better than `upper` was found
  double lower = 0;  // no timetable has an objective below this
  int64_t prefixes = 0;
};

// Closes in on the optimum between `lower`, a proved bound, and `upper`, a known objective, with
// SearchLayers: first as SearchRanks, then with searches of the whole problem. Each search looks
// for an order below a limit: one that is exhausted without finding any raises the lower bound to
// the limit, one that is exhausted with the best one ends it all. Limits rise from the lower bound,
// as low ones leave few prefixes; where a limit leaves too many to exhaust, they fall again. Gives
// up after about `most_prefixes` prefixes or at the deadline.
ExactResult SearchExactly(const Problem& problem, double lower, double upper, int64_t most_prefixes,
                          const Deadline& deadline);

// Raises `lower` to the optimum of each rank by itself (OneRankOf), as far as a fifth of
// `most_prefixes` goes. Says much where a rank has several stages and little memory, also of
// problems that are too large to be searched as a whole. Nothing where each rank has one stage:
// there, the bounds of problem/bounds.h say as much.
ExactResult SearchRanks(const Problem& problem, double lower, double upper, int64_t most_prefixes,
                        const Deadline& deadline);

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_EXACT_EXACT_H_
