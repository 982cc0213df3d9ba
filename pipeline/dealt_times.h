#ifndef SLUICE_PIPELINE_DEALT_TIMES_H_
#define SLUICE_PIPELINE_DEALT_TIMES_H_

#include "pipeline/stage_deal.h"
#include "schedules/simulate.h"

namespace sluice {

// When a dealt timetable is done.
struct DealtTimes {
  double makespan = 0;
  double bubble = 0;  // 1 - sum of work / (ranks * makespan)
};

// As Simulate, of a table whose stages have several ranks: every rank runs its actions in order,
// each as soon as its input is there. `costs` are of one replica; messages cost nothing.
// `table`: sound, a stage a row.
DealtTimes SimulateDealt(const Timetable& table, const StageDeal& deal, const StageCosts& costs);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_DEALT_TIMES_H_
