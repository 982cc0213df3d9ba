#ifndef SLUICE_SCHEDULES_SIMULATE_DEALT_TIMES_H_
#define SLUICE_SCHEDULES_SIMULATE_DEALT_TIMES_H_

#include <utility>
#include <vector>

#include "schedules/simulate/simulate.h"
#include "schedules/stage_deal.h"

namespace sluice {

// A timetable whose stages have several ranks: a sound table with one row per stage, and the row of
// each rank.
struct DealtTimetable {
  DealtTimetable(Timetable dealt, StageDeal to)
      : table(std::move(dealt)), deal(std::move(to)), rows(DealRows(table, deal)) {}

  Timetable table;
  StageDeal deal;
  std::vector<std::vector<Action>> rows;  // [rank]
};

// As Simulate: every rank runs its actions in order, each as soon as its input is there. `costs` are
// those of one member of a stage. A message takes `costs.send`, where the costs give it; messages do
// not wait for each other. `tail` ([stage], or empty): time that all members of a stage spend
// together after the last of them is done, for example to sum their gradients. The lower bound does
// not include the tail; the critical path leads to the last action; kSummary fills only the makespan
// and the bubble.
Simulation SimulateDealt(const DealtTimetable& dealt, const StageCosts& costs,
                         const std::vector<double>& tail = {}, Detail detail = Detail::kSummary);

// The table to draw such a simulation with: one row per rank, named "1f1b, stages of 3+1".
Timetable DrawnTable(const DealtTimetable& dealt);

// [stage] the most micro-batches that a rank of the stage holds at once, from the start of F to the
// end of B (of W, where the backward is split).
std::vector<int> DealtInFlight(const DealtTimetable& dealt);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_SIMULATE_DEALT_TIMES_H_
