#ifndef SLUICE_SCHEDULES_DEALT_TIMES_H_
#define SLUICE_SCHEDULES_DEALT_TIMES_H_

#include <vector>

#include "schedules/simulate.h"
#include "schedules/stage_deal.h"

namespace sluice {

// When a dealt timetable is done.
struct DealtTimes {
  double makespan = 0;
  double bubble = 0;  // 1 - sum of work / (ranks * makespan)
};

// As Simulate, of a table whose stages have several ranks: every rank runs its actions in order,
// each as soon as its input is there. `costs` are of one replica; a message takes `costs.send`,
// where it has one, any number of them at once. `tail`: seconds that all ranks of a stage spend
// together after the last of them is through, as the sum of their gradients does; [stage], or
// empty. `table`: sound, a stage a row.
DealtTimes SimulateDealt(const Timetable& table, const StageDeal& deal, const StageCosts& costs,
                         const std::vector<double>& tail = {});

// Most micro-batches that any rank of each stage holds at once, from the start of F to the end of
// B, or of W where that is apart. [stage]
std::vector<int> DealtInFlight(const Timetable& table, const StageDeal& deal);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_DEALT_TIMES_H_
