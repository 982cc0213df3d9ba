#ifndef SLUICE_PARTITIONER_BOUNDS_LAYER_CHOICES_H_
#define SLUICE_PARTITIONER_BOUNDS_LAYER_CHOICES_H_

#include <cstdint>

#include "partitioner/bounds/chain_counts.h"
#include "partitioner/bounds/stage_choices.h"
#include "partitioner/memory/feasible.h"
#include "partitioner/partition_problem.h"

namespace sluice {

// One thing that a stage of a chain of layers could be: layers from..to - 1 under a policy. A cut
// is numbered by the layers before it.
struct LayerChoice {
  using Chain = ChainCounts;

  int32_t from = 0;
  int32_t to = 0;
  Recompute policy = Recompute::kNone;
  double forward = 0;
  double input_grad = 0;
  double weight_grad = 0;
  double send = 0;  // of a message to the next stage
  double tail = 0;
  double bound = 0;  // no step whose assignment includes this choice is shorter

  // What a chain of actions spends in this stage and on the message after it.
  double Seconds(const ChainCounts::Stage& counts) const {
    return counts.forward * forward + counts.input_grad * input_grad +
           counts.weight_grad * weight_grad + counts.send * send + counts.tail * tail;
  }
};

// `stage` with layers first..end - 1; its bound is 0.
LayerChoice MakeChoice(const PartitionProblem& problem, int stage, int first, int end,
                       Recompute policy);

// All choices of layers that can still be part of a step shorter than the best one known.
class LayerChoices : public StageChoices<LayerChoice> {
 public:
  // Leaves out what does not fit into memory, and what alone makes a step take `cutoff` seconds or
  // longer.
  LayerChoices(const PartitionProblem& problem, const Feasible& feasible, double cutoff);

  // False where there are too many to list; then there is none.
  bool complete() const { return complete_; }

 private:
  bool complete_ = true;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_LAYER_CHOICES_H_
