#ifndef SLUICE_SCHEDULES_ROUND_ROBIN_H_
#define SLUICE_SCHEDULES_ROUND_ROBIN_H_

#include "schedules/timetable.h"

namespace sluice {

// Whether every rank has as many stages, stage s on rank s mod ranks.
bool IsRoundRobin(const Placement& placement);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_ROUND_ROBIN_H_
