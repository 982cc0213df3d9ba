#ifndef SLUICE_SCHEDULES_OPTIMISE_SEARCH_IMPROVE_H_
#define SLUICE_SCHEDULES_OPTIMISE_SEARCH_IMPROVE_H_

#include <cstdint>

#include "schedules/optimise/problem/problem.h"
#include "schedules/optimise/problem/schedule.h"
#include "schedules/optimise/search/search.h"

namespace sluice::optimise {

// Local search from `start`, an order that completes within the limits: moves an action of a
// critical path to the other end of its block (the actions that run back to back on its rank), as
// in job-shop scheduling (Nowicki and Smutnicki 1996; Balas and Vazacopoulos 1998). Accepts orders
// that are a little worse, ever less so (simulated annealing). Runs several chains in parallel; the
// result depends on the settings only, unless the deadline ends the search. Never worse than
// `start`.
Schedule Improve(const Problem& problem, const Schedule& start, const SearchSettings& settings,
                 const Deadline& deadline);

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_SEARCH_IMPROVE_H_
