#ifndef SLUICE_PARTITIONER_V_CUT_H_
#define SLUICE_PARTITIONER_V_CUT_H_

#include <vector>

#include "partitioner/partition.h"
#include "partitioner/partition_problem.h"
#include "partitioner/planner.h"

// Cuts for the V placement, where rank r has stages r and 2 * ranks - 1 - r.
namespace sluice {

// Of layers with these seconds of work, two stages for each of `ranks` ranks in the order of a V,
// none with more than `most` seconds a rank: each rank in turn takes its share, rounded up, of the
// layers that are left, and has about `front_share` of its work in the first of its stages, in
// (0, 1). Empty where they do not fit.
Partition FullRanksFirst(const std::vector<double>& work, int ranks, double most,
                         double front_share);

// The cut by FullRanksFirst whose fullest rank works least, as far as that is found by trying.
Partition LeastFullRanksFirst(const PlanRequest& request, double front_share);

// [stage] `everywhere`, but `in_spare_time` in the first stages of those ranks of a V that work no
// longer than the fullest one even so. Micro-batches stay longest in first stages.
std::vector<Recompute> RecomputeInSpareTime(const CostTable& costs, const Partition& partition,
                                            Recompute everywhere, Recompute in_spare_time);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_V_CUT_H_
