#ifndef SLUICE_PARTITIONER_BOUNDS_CHAIN_MEAN_H_
#define SLUICE_PARTITIONER_BOUNDS_CHAIN_MEAN_H_

#include <vector>

#include "partitioner/bounds/chain_counts.h"
#include "partitioner/step_costs.h"

namespace sluice {

// How often a chain of actions (ChainCounts), or a mean of several, meets each cost of a stage. A
// mean of chains is no longer than the longest of them: it bounds a step from below as well.
struct ChainMean {
  struct Stage {
    double forward = 0, backward = 0, send = 0;
    bool operator==(const Stage& other) const = default;
  };
  std::vector<Stage> stages;

  ChainMean() = default;
  explicit ChainMean(const ChainCounts& chain);
  void Add(const ChainMean& chain, double weight);
  double Seconds(const StepCosts& costs) const;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_CHAIN_MEAN_H_
