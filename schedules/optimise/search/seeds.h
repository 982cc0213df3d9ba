#ifndef SLUICE_SCHEDULES_OPTIMISE_SEARCH_SEEDS_H_
#define SLUICE_SCHEDULES_OPTIMISE_SEARCH_SEEDS_H_

#include <vector>

#include "schedules/optimise/problem/request.h"

namespace sluice::optimise {

// Every synchronous schedule of the catalogue for the stages, ranks and micro-batches of `request`,
// placed as it asks. Schedules that need another placement or size are left out.
std::vector<Timetable> CatalogueSeeds(const OptimiseRequest& request);

// Whether both put every stage on the same rank.
bool SamePlacement(const Placement& a, const Placement& b);

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_SEARCH_SEEDS_H_
