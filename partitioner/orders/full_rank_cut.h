#ifndef SLUICE_PARTITIONER_ORDERS_FULL_RANK_CUT_H_
#define SLUICE_PARTITIONER_ORDERS_FULL_RANK_CUT_H_

#include <cstdint>
#include <vector>

#include "partitioner/workload.h"
#include "schedules/partition.h"
#include "schedules/timetable.h"

// Where layers do not share out evenly, a few ranks are full: they have a layer more than the
// others, and decide how long a step takes. These cuts say where on a V the full ones are.
namespace sluice {

enum class FullRanks : uint8_t {
  // Outermost: they have work from the first micro-batch's start to the last one's end, but hold
  // their first stages' micro-batches for almost as long as those take.
  kFirst,
  // One stage each, before the very last stage: micro-batches come back soon, so these ranks hold
  // few, but they start late and end early.
  kLast,
};

struct PlacedCut {
  Placement placement = Placement::Looped(1);
  Partition partition;  // empty: it does not work out
};

// Of layers with these seconds of work, two stages for each of `ranks` ranks in the order of a V
// (Placement::V(ranks)), none with more than `most` seconds a rank: each rank in turn takes its
// share, rounded up, of the layers that are left, and has about `front_share` of its work in the
// first of its stages, in (0, 1). Empty where they do not fit.
Partition FullRanksFirst(const std::vector<double>& work, int ranks, double most,
                         double front_share);

// The same layers with the full ranks last: rank 0 has both ends of the chain, the ranks after it a
// V of shares rounded down, and the others, once around each, all the rest. Empty where they do not
// fit or where no rank is full. Needs 3 or more ranks.
PlacedCut FullRanksLast(const std::vector<double>& work, int ranks, double most,
                        double front_share);

// Of these cuts the one whose fullest rank works least, as far as that is found by trying.
PlacedCut LeastCut(const Workload& workload, FullRanks full, double front_share);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_ORDERS_FULL_RANK_CUT_H_
