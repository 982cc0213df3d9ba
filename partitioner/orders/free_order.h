#ifndef SLUICE_PARTITIONER_ORDERS_FREE_ORDER_H_
#define SLUICE_PARTITIONER_ORDERS_FREE_ORDER_H_

#include <optional>

#include "partitioner/candidate.h"
#include "partitioner/partition_problem.h"
#include "partitioner/plan_request.h"

namespace sluice {

// A plan whose timetable is no schedule of the catalogue: each rank takes, whenever it is free,
// what has arrived.
struct FreeOrder {
  Candidate candidate;  // called "auto"
  StageAssignment assignment;
  double seconds = 0;
};

// A catalogue's order suits equal stages. Where layers do not share out evenly, a few ranks have
// one more than the others and decide how long a step takes; an order made for these very costs
// can keep them busy throughout. Puts the full ranks first on a V (they start first, end last, and
// the others have time to spare), with half or less of their layers in first stages, or last (they
// hold little), lets the others recompute in the time they have to spare, or all of them longer
// where all lack memory, dispatches by a few rules, and keeps the fastest that fits into memory.
// Unless that is `enough` seconds or less, tries others near it too. Nothing where that is not
// worth trying: few actions (the exact search of the catalogue is quick and proves more), less than
// two layers a device, devices that differ, a schedule, chunks or partition that was asked for, or
// nothing below `request.cutoff`.
std::optional<FreeOrder> FindFreeOrder(const PlanRequest& request, double enough = 0);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_ORDERS_FREE_ORDER_H_
