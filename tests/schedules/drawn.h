#ifndef SLUICE_TESTS_SCHEDULES_DRAWN_H_
#define SLUICE_TESTS_SCHEDULES_DRAWN_H_

#include "schedules/generators/catalogue.h"
#include "schedules/simulate/simulate.h"

namespace sluice {

// A table with its simulation at unit costs, for the tests of the pictures.
struct Drawn {
  Timetable table;
  Simulation run;
};

inline Drawn Draw(const char* schedule, const ScheduleRequest& request) {
  Drawn drawn{*GenerateSchedule(schedule, request), {}};
  drawn.run = *Simulate(drawn.table, StageCosts::Uniform(drawn.table.placement.stages(), 1, 1, 1));
  return drawn;
}

}  // namespace sluice

#endif  // SLUICE_TESTS_SCHEDULES_DRAWN_H_
