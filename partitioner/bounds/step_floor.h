#ifndef SLUICE_PARTITIONER_BOUNDS_STEP_FLOOR_H_
#define SLUICE_PARTITIONER_BOUNDS_STEP_FLOOR_H_

#include "partitioner/workload.h"

namespace sluice {

// No plan of `workload` takes fewer seconds per step, whatever its schedule: its devices share all the
// work, each layer is whole, and one micro-batch must go forth and back. Infinite where not even
// all memory together is enough.
double StepFloor(const Workload& workload);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_STEP_FLOOR_H_
