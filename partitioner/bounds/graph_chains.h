#ifndef SLUICE_PARTITIONER_BOUNDS_GRAPH_CHAINS_H_
#define SLUICE_PARTITIONER_BOUNDS_GRAPH_CHAINS_H_

#include <vector>

#include "models/spec/profile_graph.h"
#include "partitioner/bounds/step_model.h"
#include "partitioner/cuts/downsets.h"
#include "partitioner/partition_problem.h"
#include "partitioner/search/graph_partition.h"
#include "schedules/timetable.h"

namespace sluice {

// The cuts of a graph, and the seconds of what lies before each.
struct GraphWork {
  GraphWork(const ProfileGraph& graph, const Downsets& sets);

  const Downsets& sets;
  std::vector<double> forward, backward;  // [set] sums over its nodes, in whole picoseconds

  int whole() const { return sets.size() - 1; }
  // The stage of what is in `to` and not in `from`, which lies inside it; one micro-batch in
  // flight.
  GraphStage StageBetween(int from, int to) const;
  // Adds that stage's seconds to `costs`. The backward of a profile is one number; half of it is I,
  // half is W.
  void AddStage(int from, int to, StepCosts* costs) const;
};

// The cuts of a pipeline, one before each stage and one at the end: growing sets from 0, which is
// empty, to whole().
using GraphCuts = std::vector<int>;

// Stages cut out of a graph and run by a timetable. Pointers stay the caller's.
struct GraphStepProblem {
  const GraphWork* work = nullptr;
  const Timetable* timetable = nullptr;  // compute-only, valid, of one copy
  const InFlight* in_flight = nullptr;   // of it
  Link link;
  double memory = 0;  // bytes of each device; infinite without a limit

  int stages() const { return timetable->placement.stages(); }
  // Seconds of the message after `stage` where `set` lies before the cut; 0 on one rank.
  double SendSeconds(int stage, int set) const;
  StepCosts Costs(const GraphCuts& cuts) const;
  // Most bytes that `rank` holds with its stages as cut (those not cut yet count as empty): four
  // copies of the parameters, and each micro-batch's activations from F to the end of B, or of W.
  double RankBytes(int rank, const GraphCuts& cuts) const;
  // The same for a stage as if it were alone on its rank.
  double StageBytes(int stage, int from, int to) const;
  bool Fits(const GraphCuts& cuts) const;
};

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

// What a ChainMean takes at least over all pipelines of a graph. A stage from set D to set E takes
// w(E) - w(D), its weight by the chain's counts, so the least up to a cut needs no pairs of sets,
// only the least of (length so far - w) inside each: one pass over the sets a stage.
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
  void PassForward(const ChainMean& chain);
  void ExtendForward(const ChainMean& chain, int stage);
  void PassBackward(const ChainMean& chain);
  void ExtendBackward(const ChainMean& chain, int stage);
  double Send(const ChainMean& chain, int stage, int set) const;

  const GraphStepProblem& problem_;
  const Downsets& sets_;
  int64_t pass_steps_ = 0;
  std::vector<char> alive_;        // [cut, set]
  std::vector<double> from_, to_;  // [cut, set]
  std::vector<int> before_;        // [cut, set] the cut before, on the shortest way
  // Of one stage: the least of what lies inside (around) a set, itself included, and which it is.
  std::vector<double> least_;
  std::vector<int> which_;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_GRAPH_CHAINS_H_
