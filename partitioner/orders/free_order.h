#ifndef SLUICE_PARTITIONER_ORDERS_FREE_ORDER_H_
#define SLUICE_PARTITIONER_ORDERS_FREE_ORDER_H_

#include <optional>

#include "partitioner/candidate.h"
#include "partitioner/partition_problem.h"
#include "partitioner/plan_request.h"

namespace sluice {

// A plan whose timetable is no schedule of the catalogue, but a custom order, made for its costs:
// whenever a rank is free, it takes an action whose input has arrived.
struct FreeOrder {
  Candidate candidate;  // called "auto"
  StageAssignment assignment;
  double seconds = 0;
};

// The orders of the catalogue suit equal stages. Where layers do not divide evenly over the ranks,
// a few ranks are full: they have one layer more than the others, and decide how long a step takes.
// An order made for these very costs can keep them busy throughout. For each row of
// FreeOrderTrials():
//   1. A cut on a V puts the full ranks first, where they start first and end last, or last, where
//      they hold few micro-batches (full_rank_cut.h).
//   2. The other ranks recompute in the time that they have to spare; where all ranks lack memory,
//      all may work longer (recompute_choice.h).
//   3. The row's rules dispatch the actions; of all timetables the fastest that fits is kept.
// Where that takes more than `enough` seconds, 4. the rows near the best one (TrialsNear) are tried
// as well.
// Returns nothing where this does not pay: with few actions, since the exact search of the
// catalogue is quick and proves more; with less than two layers per device; where devices differ;
// where a schedule, chunks or a partition was asked for; or where nothing is below
// `request.cutoff`.
std::optional<FreeOrder> FindFreeOrder(const PlanRequest& request, double enough = 0);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_ORDERS_FREE_ORDER_H_
