#include "partitioner/bounds/chain_pool.h"

#include <algorithm>
#include <limits>

namespace sluice {

void ChainPool::Add(const ChainCounts& counts, StageArcs* arcs) {
  layers_ = arcs->layers();
  chains_.push_back({counts, {}});
  Measure(&chains_.back(), arcs);
}

void ChainPool::Refresh(StageArcs* arcs) {
  for (Chain& chain : chains_) Measure(&chain, arcs);
}

void ChainPool::Measure(Chain* chain, StageArcs* arcs) {
  const int stages = arcs->stages();
  const size_t cells = static_cast<size_t>(stages + 1) * static_cast<size_t>(layers_ + 1);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  chain->to_end.assign(cells, kInfinity);
  std::vector<double> from_start(cells, kInfinity);
  chain->to_end[Index(stages, layers_)] = 0;
  from_start[Index(0, 0)] = 0;
  for (int stage = stages - 1; stage >= 0; --stage) {
    const ChainCounts::Stage& counts = chain->counts.stages[stage];
    for (const StageArc& arc : arcs->Of(stage)) {
      double& length = chain->to_end[Index(stage, arc.first)];
      length = std::min(length, arc.Seconds(counts) + chain->to_end[Index(stage + 1, arc.end)]);
    }
  }
  for (int stage = 0; stage < stages; ++stage) {
    const ChainCounts::Stage& counts = chain->counts.stages[stage];
    for (StageArc& arc : arcs->Of(stage)) {
      const double here = from_start[Index(stage, arc.first)] + arc.Seconds(counts);
      double& length = from_start[Index(stage + 1, arc.end)];
      length = std::min(length, here);
      arc.bound = std::max(arc.bound, here + chain->to_end[Index(stage + 1, arc.end)]);
    }
  }
}

}  // namespace sluice
