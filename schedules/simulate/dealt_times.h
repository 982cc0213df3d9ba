#ifndef SLUICE_SCHEDULES_SIMULATE_DEALT_TIMES_H_
#define SLUICE_SCHEDULES_SIMULATE_DEALT_TIMES_H_

#include <utility>
#include <vector>

#include "schedules/simulate/simulate.h"
#include "schedules/stage_deal.h"

namespace sluice {

// A timetable whose stages have several ranks: sound, with a stage a row; and the row of each rank.
struct DealtTimetable {
  DealtTimetable(Timetable dealt, StageDeal to)
      : table(std::move(dealt)), deal(std::move(to)), rows(DealRows(table, deal)) {}

  Timetable table;
  StageDeal deal;
  std::vector<std::vector<Action>> rows;  // [rank]
};

// As Simulate: every rank runs its actions in order, each as soon as its input is there. `costs`
// are of one replica; a message takes `costs.send`, where it has one, any number of them at once.
// `tail`: seconds that all ranks of a stage spend together after the last of them is through, as
// the sum of their gradients does; [stage], or empty. The bound counts no tail; the critical path
// leads to the last action; kSummary has the makespan and the bubble alone.
Simulation SimulateDealt(const DealtTimetable& dealt, const StageCosts& costs,
                         const std::vector<double>& tail = {}, Detail detail = Detail::kSummary);

// What such a simulation is drawn with: a row a rank, "1f1b, stages of 3+1".
Timetable DrawnTable(const DealtTimetable& dealt);

// Most micro-batches that any rank of each stage holds at once, from the start of F to the end of
// B, or of W where that is apart. [stage]
std::vector<int> DealtInFlight(const DealtTimetable& dealt);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_SIMULATE_DEALT_TIMES_H_
