#ifndef SLUICE_SCHEDULES_ROUND_ROBIN_H_
#define SLUICE_SCHEDULES_ROUND_ROBIN_H_

#include "schedules/timetable.h"

namespace sluice {

// Whether all ranks have the same number of stages, and stage s is on rank s mod ranks.
bool IsRoundRobin(const Placement& placement);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_ROUND_ROBIN_H_
