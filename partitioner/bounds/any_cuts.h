#ifndef SLUICE_PARTITIONER_BOUNDS_ANY_CUTS_H_
#define SLUICE_PARTITIONER_BOUNDS_ANY_CUTS_H_

#include <vector>

#include "partitioner/bounds/chain_mean.h"
#include "partitioner/graph_problem.h"
#include "partitioner/step_costs.h"

namespace sluice {

// What a step takes at least whatever the cuts of the graph and the memory, for graphs whose cuts
// are too many to list: nothing here depends on the list of `problem`.
class AnyCuts {
 public:
  // `problem` must outlive it.
  explicit AnyCuts(const GraphStepProblem& problem);

  // Seconds that no step is below: the work shared evenly, and for each node u the stage that holds
  // it. That stage works on every micro-batch, the first of which comes through all that u needs,
  // and the gradient of the last goes back through that; only W may run meanwhile, where it is an
  // action of its own.
  double seconds() const { return seconds_; }
  // Seconds that a mean of chains takes at least over all pipelines: each node in the stage where
  // it costs the mean least, whatever the others are in (the Lagrangian relaxation of their order),
  // and messages of as few bytes as any cut may have. `costs` become those of such stages.
  double Shortest(const ChainMean& mean, StepCosts* costs) const;

 private:
  struct Node {
    double forward, backward;
  };

  double NodeSeconds() const;

  const GraphStepProblem& problem_;
  std::vector<Node> nodes_;         // in whole picoseconds, as GraphWork
  std::vector<double> least_send_;  // [stage] of the message after it
  double seconds_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_ANY_CUTS_H_
