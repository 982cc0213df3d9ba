#ifndef SLUICE_PARTITIONER_ORDERS_RECOMPUTE_CHOICE_H_
#define SLUICE_PARTITIONER_ORDERS_RECOMPUTE_CHOICE_H_

#include <cstdint>
#include <vector>

#include "partitioner/cuts/cost_table.h"
#include "partitioner/orders/full_rank_cut.h"
#include "partitioner/workload.h"
#include "schedules/partition.h"

// What the stages of a cut recompute, where an order is to be made that leaves the fullest rank no
// time to do so.
namespace sluice {

// Bytes that a rank of `memory` with these stages has for micro-batches in flight: besides what it
// always holds, and what a call, or the time between an I and its W, takes at the most. Negative
// where it lacks them.
double RoomInFlight(int64_t memory, const std::vector<RangeCost>& stages);

// [stage] `everywhere`, but `in_spare_time` in the first stages of those ranks of a V that work no
// longer than the fullest one even so. Micro-batches stay longest in first stages.
std::vector<Recompute> RecomputeInSpareTime(const CostTable& costs, const Partition& partition,
                                            Recompute everywhere, Recompute in_spare_time);

// [stage] as little as lets each rank hold the micro-batches that are on their way when each takes
// `slowness` times as long as it would alone and the fullest rank never waits; no rank works longer
// than the fullest one for it, unless it may take `longer`: then no more than it takes for all to
// hold as many. Where a rank cannot hold so many, what needs least memory.
// Recomputes nothing where nothing limits the memory. Requires uniform devices and the policies to
// contain kNone.
std::vector<Recompute> RecomputeToFit(const Workload& workload, const PlacedCut& cut,
                                      double slowness, bool longer);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_ORDERS_RECOMPUTE_CHOICE_H_
