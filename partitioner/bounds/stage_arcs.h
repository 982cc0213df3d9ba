#ifndef SLUICE_PARTITIONER_BOUNDS_STAGE_ARCS_H_
#define SLUICE_PARTITIONER_BOUNDS_STAGE_ARCS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "partitioner/bounds/chain_counts.h"
#include "partitioner/memory/feasible.h"
#include "partitioner/partition_problem.h"

namespace sluice {

// One thing that a stage could be: layers first..end - 1 under a policy. An assignment is a path of
// arcs, one a stage, from layer 0 to the last.
struct StageArc {
  int32_t first = 0;
  int32_t end = 0;
  Recompute policy = Recompute::kNone;
  double forward = 0;
  double input_grad = 0;
  double weight_grad = 0;
  double send = 0;  // of a message to the next stage
  double tail = 0;
  double bound = 0;  // no step whose assignment uses this arc is shorter

  // What a chain of actions spends in this stage and on the edge after it.
  double Seconds(const ChainCounts::Stage& counts) const {
    return counts.forward * forward + counts.input_grad * input_grad +
           counts.weight_grad * weight_grad + counts.send * send + counts.tail * tail;
  }
};

// `stage` with layers first..end - 1.
StageArc MakeArc(const PartitionProblem& problem, int stage, int first, int end, Recompute policy);

// All arcs that can still be part of a step shorter than the best one known.
class StageArcs {
 public:
  // Leaves out what does not fit into memory, and what alone makes a step of `cutoff` seconds or
  // longer.
  StageArcs(const PartitionProblem& problem, const Feasible& feasible, double cutoff);

  // False where there are too many to list; then there is none.
  bool complete() const { return complete_; }
  int stages() const { return static_cast<int>(arcs_.size()); }
  int layers() const { return layers_; }
  int64_t count() const;
  // Arcs of `stage` that start at layer `first`.
  absl::Span<const StageArc> From(int stage, int first) const;
  absl::Span<const StageArc> Of(int stage) const { return arcs_[stage]; }
  absl::Span<StageArc> Of(int stage) { return absl::MakeSpan(arcs_[stage]); }
  // Drops every arc whose bound is `cutoff` or more.
  void Cut(double cutoff);
  // Drops arcs that lie on no path from layer 0 to the last. False when no path is left.
  bool DropDeadEnds();

  // The path whose largest bound is least (exact, by dynamic programming). With `path` null only
  // the value.
  double LeastBound(std::vector<StageArc>* path) const;
  // [stage][layer]: the least largest bound of a path from there to the end.
  std::vector<std::vector<double>> BoundsToEnd() const;

 private:
  void Index();

  bool complete_ = true;
  int layers_ = 0;
  std::vector<std::vector<StageArc>> arcs_;    // [stage], by first layer
  std::vector<std::vector<int32_t>> offsets_;  // [stage][layer] first arc that starts there
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_STAGE_ARCS_H_
