#ifndef SLUICE_TESTS_SCHEDULES_NAIVE_H_
#define SLUICE_TESTS_SCHEDULES_NAIVE_H_

#include <optional>
#include <vector>

#include "schedules/simulate/simulate.h"
#include "schedules/timetable.h"

// Slow versions of the simulator and the validator, written directly from the definitions.
namespace sluice {

struct NaiveRun {
  std::vector<std::vector<TimedAction>> rows;
  double makespan = 0;
  std::vector<int> peak_activations;
  std::vector<double> peak_bytes;
};

// Starts everything at time 0 and makes actions later until nothing changes. Empty when that never
// ends.
std::optional<NaiveRun> NaiveSimulate(const Timetable& table, const StageCosts& costs);

// The rules of FindDefects, each checked separately by searching the whole table.
bool NaiveIsSound(const Timetable& table);

}  // namespace sluice

#endif  // SLUICE_TESTS_SCHEDULES_NAIVE_H_
