#ifndef SLUICE_PARTITIONER_CUTS_GRAPH_WORK_H_
#define SLUICE_PARTITIONER_CUTS_GRAPH_WORK_H_

#include <vector>

#include "models/spec/profile_graph.h"
#include "partitioner/cuts/downsets.h"
#include "partitioner/cuts/graph_stage.h"
#include "partitioner/step_costs.h"

namespace sluice {

// The cuts of a graph, and the seconds of what lies before each. What it is made of must outlive it.
struct GraphWork {
  GraphWork(const ProfileGraph& graph, const Downsets& sets);

  const ProfileGraph& graph;
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

// As GraphWork counts seconds: in whole picoseconds, so that sums do not depend on their order.
double WholePicoseconds(double seconds);

// The cuts of a pipeline, one before each stage and one at the end: growing sets from 0, which is
// empty, to whole().
using GraphCuts = std::vector<int>;

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_CUTS_GRAPH_WORK_H_
