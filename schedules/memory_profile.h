#ifndef SLUICE_SCHEDULES_MEMORY_PROFILE_H_
#define SLUICE_SCHEDULES_MEMORY_PROFILE_H_

#include "schedules/simulate.h"

namespace sluice {

// Fills peak_activations and, where `costs` has bytes, peak_bytes of a simulation whose rows are
// complete.
void MeasureMemory(const StageCosts& costs, Simulation* simulation);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_MEMORY_PROFILE_H_
