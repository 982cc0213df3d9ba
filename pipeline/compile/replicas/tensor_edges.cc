#include "pipeline/compile/replicas/tensor_edges.h"

#include <set>

#include "pipeline/compile/replicas/tied_parameters.h"

namespace sluice {
namespace {

using Edges = std::set<std::pair<int, int>>;

void AddBothWays(int a, int b, Edges* edges) {
  if (a == b) return;
  edges->emplace(a, b);
  edges->emplace(b, a);
}

// Within one pipeline, by its ranks.
Edges PipelineEdges(const RunPlan& plan) {
  Edges edges;
  for (const std::vector<RankProgram>* programs : {&plan.train, &plan.evaluate}) {
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      const std::vector<int>& sends = (*programs)[static_cast<size_t>(rank)].sends;
      for (int peer = 0; peer < plan.ranks(); ++peer) {
        if (sends[static_cast<size_t>(peer)] > 0) edges.emplace(rank, peer);
      }
    }
  }
  for (const TiedPair& pair : TiedPairs(plan)) {
    for (const auto& [original, copy] : TiedSwaps(plan, pair)) AddBothWays(original, copy, &edges);
  }
  for (int rank = 0; plan.mirrors() && rank < plan.ranks(); ++rank)
    edges.emplace(rank, plan.MirrorOf(rank));
  const Placement& placement = plan.lowered.placement;
  for (int stage = 0; placement.copies() > 1 && stage < placement.model_stages(); ++stage)
    AddBothWays(placement.rank(stage), placement.rank(stage + placement.model_stages()), &edges);
  for (int rank = 0; plan.has_stage_members() && rank < plan.ranks(); ++rank) {
    const RankGroup group = plan.GroupOf(rank);
    for (int k = 0; k < group.size; ++k) AddBothWays(rank, group.rank(k), &edges);
  }
  return edges;
}

}  // namespace

std::vector<std::pair<int, int>> TensorEdges(const RunPlan& plan) {
  Edges edges;
  for (int replica = 0; replica < plan.replicas(); ++replica) {
    const int first = replica * plan.ranks();
    for (const auto& [from, to] : PipelineEdges(plan)) edges.emplace(first + from, first + to);
    for (int other = 0; other < replica; ++other) {
      for (int rank = 0; rank < plan.ranks(); ++rank)
        AddBothWays(first + rank, other * plan.ranks() + rank, &edges);
    }
  }
  for (int rank = 0; plan.audits() && rank < plan.world_size(); ++rank)
    edges.emplace(rank, plan.AuditorOf(rank));
  return {edges.begin(), edges.end()};
}

}  // namespace sluice
