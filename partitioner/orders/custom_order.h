#ifndef SLUICE_PARTITIONER_ORDERS_CUSTOM_ORDER_H_
#define SLUICE_PARTITIONER_ORDERS_CUSTOM_ORDER_H_

#include <functional>
#include <limits>
#include <optional>

#include "partitioner/candidate.h"
#include "partitioner/partition_problem.h"
#include "partitioner/workload.h"

namespace sluice {

// The schedule of a plan with a custom order, in the plan and in its file: none of the catalogue.
inline constexpr char kCustomOrder[] = "auto";

// A plan whose timetable is no schedule of the catalogue, but a custom order, made for its costs:
// whenever a rank is free, it takes an action whose input has arrived.
struct CustomOrder {
  Candidate candidate;  // its schedule is kCustomOrder
  StageAssignment assignment;
  double seconds = 0;
};

// What is of interest, and when to stop.
struct CustomOrderLimits {
  double cutoff = std::numeric_limits<double>::infinity();  // seconds that it must stay below
  double enough = 0;  // seconds that are good enough: no more is tried then
  // Of timetables with few actions or of the others: for few, the catalogue is to be tried first.
  bool few_actions = false;
  std::function<bool()> stop = {};  // asked from several threads; true ends it; may be empty
};

// The orders of the catalogue suit equal stages. Where layers do not divide evenly over the ranks,
// a few ranks are full: they have one layer more than the others, and decide how long a step takes.
// An order made for these very costs can keep them busy throughout. For each row of
// CustomOrderTrials():
//   1. A cut on a V puts the full ranks first, where they start first and end last, or last, where
//      they hold few micro-batches (full_rank_cut.h).
//   2. The other ranks recompute in the time that they have to spare; where all ranks lack memory,
//      all may work longer (recompute_choice.h).
//   3. The row's rules dispatch the actions; of all timetables the fastest that fits is kept.
// Where that takes more than `limits.enough` seconds, 4. rows near the best ones (TrialsNear) are
// tried as well, as long as each time saves something.
// Returns nothing where this does not pay: with fewer than 2,000 actions, unless these are asked
// for, since the exact search of the catalogue is quick and proves more; with less than two layers
// per device; where devices differ in speed; or where nothing is below `limits.cutoff`.
std::optional<CustomOrder> FindCustomOrder(const Workload& workload,
                                           const CustomOrderLimits& limits = {});

// Another order for the stages of a plan: that which schedules/optimise finds for their costs and
// the memory of the devices, `candidate`'s own being its first try. Where other cuts or
// recomputation make that order faster, the stages become these, and are ordered anew, in turns.
// Nothing where none that fits is below `limits.cutoff`, where the plan has more than one copy of
// the model or updates its weights within a step, or with so many actions that it would take long.
std::optional<CustomOrder> FindBetterOrder(const Workload& workload, const Candidate& candidate,
                                           const StageAssignment& assignment,
                                           const CustomOrderLimits& limits);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_ORDERS_CUSTOM_ORDER_H_
