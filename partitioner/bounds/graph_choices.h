#ifndef SLUICE_PARTITIONER_BOUNDS_GRAPH_CHOICES_H_
#define SLUICE_PARTITIONER_BOUNDS_GRAPH_CHOICES_H_

#include <cstdint>
#include <vector>

#include "partitioner/bounds/chain_mean.h"
#include "partitioner/bounds/graph_lengths.h"
#include "partitioner/bounds/stage_choices.h"
#include "partitioner/cuts/graph_work.h"
#include "partitioner/graph_problem.h"

namespace sluice {

// One thing that a stage of a graph could be: what lies between two cuts, numbered as in
// GraphChoices::sets().
struct GraphChoice {
  using Chain = ChainMean;

  int32_t from = 0, to = 0;
  double forward = 0, backward = 0;
  double send = 0;   // of the message to the next stage
  double bound = 0;  // no step whose stages include this one is shorter

  double Seconds(const ChainMean::Stage& counts) const {
    return counts.forward * forward + counts.backward * backward + counts.send * send;
  }
};

// What came of listing choices.
enum class ListedChoices : uint8_t {
  kAll,      // of every stage
  kNone,     // proof: no pipeline is below the cutoff and within memory
  kTooMany,  // nothing is known, and what was listed is useless
};

// All stages that can still be part of a step shorter than the best one known: pairs of a cut and a
// larger one.
class GraphChoices : public StageChoices<GraphChoice> {
 public:
  // Of the pairs of cuts alive in `lengths` those within memory whose bound, by the chain last
  // measured there and by what the stage alone makes a step take, is below `cutoff`. Too many
  // where more than `most` pairs would have to be kept, or a multiple of that looked at.
  ListedChoices Build(const GraphStepProblem& problem, const GraphLengths& lengths,
                      const ChainMean& chain, double cutoff, int64_t most);

  // [cut] the set of nodes before it, ascending.
  const std::vector<int>& sets(int boundary) const { return sets_[boundary]; }
  // The cuts of a path from the first stage on.
  GraphCuts CutsOf(const std::vector<GraphChoice>& path) const;
  // The pipeline on which `chain` takes least; infinite when there is none. Raises bounds as
  // Measure().
  double Shortest(const ChainMean& chain, GraphCuts* cuts);

 private:
  bool AddStage(const GraphStepProblem& problem, const GraphLengths& lengths,
                const ChainMean& chain, int stage, double cutoff, int64_t most);

  std::vector<std::vector<int>> sets_;  // [boundary][cut]
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_GRAPH_CHOICES_H_
