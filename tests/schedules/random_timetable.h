#ifndef SLUICE_TESTS_SCHEDULES_RANDOM_TIMETABLE_H_
#define SLUICE_TESTS_SCHEDULES_RANDOM_TIMETABLE_H_

#include <random>

#include "schedules/simulate/simulate.h"
#include "schedules/timetable.h"

namespace sluice {

using Random = std::mt19937;
int Draw(Random& random, int least, int most);

// A sound compute-only table: stages placed at random, the backward of each stage split or whole,
// actions in a random order that respects the dependencies, with some forwards and backwards paired
// and some idle cells.
Timetable RandomTimetable(Random& random);

// Puts a RECOMPUTE somewhere between the forward and the backward of some (stage, micro-batch)
// pairs.
void AddRecomputes(Random& random, Timetable& table);

// Random costs for the table, some of them zero; multiples of 1/8, so that sums are exact.
StageCosts RandomCosts(Random& random, int stages);

}  // namespace sluice

#endif  // SLUICE_TESTS_SCHEDULES_RANDOM_TIMETABLE_H_
