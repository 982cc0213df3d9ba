#ifndef SLUICE_PARTITIONER_STEP_COSTS_H_
#define SLUICE_PARTITIONER_STEP_COSTS_H_

#include <vector>

#include "schedules/simulate/simulate.h"

namespace sluice {

// What Simulate() takes, and what it does not know: the end of a step.
struct StepCosts : StageCosts {
  std::vector<double> tail;  // [stage] seconds after the last action of its rank, once a step
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_STEP_COSTS_H_
