#ifndef SLUICE_PARTITIONER_BOUNDS_CHAIN_POOL_H_
#define SLUICE_PARTITIONER_BOUNDS_CHAIN_POOL_H_

#include <vector>

#include "partitioner/bounds/chain_counts.h"
#include "partitioner/bounds/stage_arcs.h"

namespace sluice {

// Chains of actions collected as proof. A step takes at least as long as any chain of its
// timetable, and what a chain takes is a sum over stages; so the least that it takes over all
// assignments, before and after any stage, is a shortest path. These lengths bound every assignment
// that uses a given arc, and every completion of a partial one.
class ChainPool {
 public:
  int size() const { return static_cast<int>(chains_.size()); }
  const ChainCounts::Stage& counts(int chain, int stage) const {
    return chains_[chain].counts.stages[stage];
  }
  // Least seconds of `chain` in stages `stage`... over layers `layer`...; infinite where no arcs
  // lead to the end.
  double ToEnd(int chain, int stage, int layer) const {
    return chains_[chain].to_end[Index(stage, layer)];
  }

  // Adds a chain of the timetable, and raises the bound of every arc to what the chain says.
  void Add(const ChainCounts& counts, StageArcs* arcs);
  // Measures all chains again, over the arcs that are left, and raises their bounds.
  void Refresh(StageArcs* arcs);

 private:
  struct Chain {
    ChainCounts counts;
    std::vector<double> to_end;  // [stage, layer]
  };

  size_t Index(int stage, int layer) const {
    return static_cast<size_t>(stage) * static_cast<size_t>(layers_ + 1) +
           static_cast<size_t>(layer);
  }
  void Measure(Chain* chain, StageArcs* arcs);

  int layers_ = 0;
  std::vector<Chain> chains_;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_CHAIN_POOL_H_
