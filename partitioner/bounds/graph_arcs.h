#ifndef SLUICE_PARTITIONER_BOUNDS_GRAPH_ARCS_H_
#define SLUICE_PARTITIONER_BOUNDS_GRAPH_ARCS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "partitioner/bounds/chain_mean.h"
#include "partitioner/bounds/graph_lengths.h"
#include "partitioner/cuts/graph_work.h"
#include "partitioner/graph_problem.h"

namespace sluice {

// One thing that a stage could be: what lies between two cuts, numbered as in GraphArcs::sets().
struct GraphArc {
  int32_t from = 0, to = 0;
  double forward = 0, backward = 0;
  double send = 0;   // of the message to the next stage
  double bound = 0;  // no step whose stages include this one is shorter

  double Seconds(const ChainMean::Stage& counts) const {
    return counts.forward * forward + counts.backward * backward + counts.send * send;
  }
};

// All stages that can still be part of a step shorter than the best one known: pairs of a cut and a
// larger one. StageArcs, for graphs.
class GraphArcs {
 public:
  // Of the pairs of cuts alive in `lengths` those within memory whose bound, by the chain last
  // measured there and by what the stage alone makes a step take, is below `cutoff`. False, and
  // useless, when more than `most` pairs would have to be looked at or kept.
  bool Build(const GraphStepProblem& problem, const GraphLengths& lengths, const ChainMean& chain,
             double cutoff, int64_t most);

  int stages() const { return static_cast<int>(arcs_.size()); }
  int64_t count() const;
  const std::vector<int>& sets(int cut) const { return sets_[cut]; }
  absl::Span<const GraphArc> From(int stage, int cut) const;

  // Raises every bound to what `chain` says; returns its least seconds from each cut to the end.
  std::vector<std::vector<double>> Measure(const ChainMean& chain);
  // The pipeline on which `chain` takes least; infinite when there is none.
  double Shortest(const ChainMean& chain, GraphCuts* cuts);
  // Drops what has a bound of `cutoff` or more, and then what lies on no pipeline.
  void Cut(double cutoff);
  // [stage][cut] the least largest bound of a way from there to the end.
  std::vector<std::vector<double>> BoundsToEnd() const;

 private:
  bool AddStage(const GraphStepProblem& problem, const GraphLengths& lengths,
                const ChainMean& chain, int stage, double cutoff, int64_t most);
  void DropDeadEnds();
  void Index();
  std::vector<std::vector<double>> Filled(double value) const;

  std::vector<std::vector<int>> sets_;         // [cut] ascending
  std::vector<std::vector<GraphArc>> arcs_;    // [stage] by `from`
  std::vector<std::vector<int64_t>> offsets_;  // [stage][cut] the first arc from there
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_GRAPH_ARCS_H_
