#ifndef SLUICE_PARTITIONER_BOUNDS_GRAPH_LENGTHS_H_
#define SLUICE_PARTITIONER_BOUNDS_GRAPH_LENGTHS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "partitioner/bounds/chain_mean.h"
#include "partitioner/cuts/downsets.h"
#include "partitioner/graph_problem.h"

namespace sluice {

// What a ChainMean takes at least over all pipelines of a graph. A stage from set D to set E takes
// w(E) - w(D), its weight by the chain's counts, so the least up to a cut needs no pairs of sets,
// only the least of (length so far - w) inside each: one pass over the sets per stage.
class GraphLengths {
 public:
  explicit GraphLengths(const GraphStepProblem& problem);

  // A pipeline that takes least, and how long that is; infinite when no cuts are left.
  double Shortest(const ChainMean& chain, GraphCuts* cuts);
  // Drops every cut that no pipeline has on which `chain` takes less than `seconds`. Leaves the
  // lengths from the start and to the end in from() and to().
  void Drop(const ChainMean& chain, double seconds);

  // Whether `set` can be the cut before `stage`.
  bool Alive(int stage, int set) const { return alive_[Index(stage, set)] != 0; }
  std::vector<int> AliveAt(int stage) const;
  double from(int stage, int set) const { return from_[Index(stage, set)]; }
  double to(int stage, int set) const { return to_[Index(stage, set)]; }
  // Elementary steps of one pass.
  int64_t pass_steps() const { return pass_steps_; }

 private:
  size_t Index(int stage, int set) const {
    return static_cast<size_t>(stage) * static_cast<size_t>(sets_.size()) +
           static_cast<size_t>(set);
  }
  double Weight(const ChainMean::Stage& counts, int set) const {
    return counts.forward * problem_.work->forward[set] +
           counts.backward * problem_.work->backward[set];
  }
  // Of what goes over `link` after a stage that ends with `set`.
  double Send(const ChainMean::Stage& counts, const Link& link, int set) const {
    return counts.send * link.Seconds(sets_.cut_bytes(set));
  }
  void PassForward(const ChainMean& chain);
  void ExtendForward(const ChainMean& chain, int stage);
  void PassBackward(const ChainMean& chain);
  void ExtendBackward(const ChainMean& chain, int stage);

  const GraphStepProblem& problem_;
  const Downsets& sets_;
  int64_t pass_steps_ = 0;
  std::vector<char> alive_;        // [cut, set]
  std::vector<double> from_, to_;  // [cut, set]; to_ is empty until Drop
  std::vector<int> before_;        // [cut, set] the cut before, on the shortest way
  // Of one stage: the least of what lies inside (around) a set, itself included, and which it is.
  std::vector<double> least_;
  std::vector<int> which_;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_GRAPH_LENGTHS_H_
