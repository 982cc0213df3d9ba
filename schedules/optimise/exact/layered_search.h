#ifndef SLUICE_SCHEDULES_OPTIMISE_EXACT_LAYERED_SEARCH_H_
#define SLUICE_SCHEDULES_OPTIMISE_EXACT_LAYERED_SEARCH_H_

#include <cstdint>

#include "schedules/optimise/dispatch/dispatch.h"
#include "schedules/optimise/problem/problem.h"
#include "schedules/optimise/problem/relaxation.h"
#include "schedules/optimise/search/search.h"

namespace sluice::optimise {

struct LayeredResult {
  Schedule best;          // value kNever: nothing below the limit was found
  bool exhausted = true;  // nothing below both the limit and `best` exists
  int64_t prefixes = 0;   // looked at
};

// Looks for the best order with an objective below `limit` among all active schedules (those in
// which no action could run earlier without delaying another one; one of them is optimal): first
// all prefixes of one action, then of two, and so on, without those that cannot end below the limit
// and those that leave nothing to gain from another one (dynamic programming with bounds; Bautista
// and Pereira 2009). Where there are too many for about `most_prefixes` in all, only the most
// promising go on, and the search is not exhaustive: a beam search.
LayeredResult SearchLayers(const Problem& problem, const Relaxation& relaxation, double limit,
                           int64_t most_prefixes, const Deadline& deadline);

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_EXACT_LAYERED_SEARCH_H_
