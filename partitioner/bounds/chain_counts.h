#ifndef SLUICE_PARTITIONER_BOUNDS_CHAIN_COUNTS_H_
#define SLUICE_PARTITIONER_BOUNDS_CHAIN_COUNTS_H_

#include <vector>

#include "partitioner/step_costs.h"

namespace sluice {

// How often a chain of actions, each waiting for the one before it, meets every duration. The chain
// takes sum of count * duration, and no assignment of layers to stages makes the step shorter than
// any of its chains.
struct ChainCounts {
  struct Stage {
    int forward = 0;
    int input_grad = 0;   // I, and the I in B
    int weight_grad = 0;  // W, and the W in B
    int send = 0;         // messages between this stage and the next
    int tail = 0;         // 1 where the chain ends with what the stage's rank does once a step
  };
  std::vector<Stage> stages;

  double Seconds(const StepCosts& costs) const;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_CHAIN_COUNTS_H_
