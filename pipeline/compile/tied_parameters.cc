#include "pipeline/compile/tied_parameters.h"

#include <algorithm>
#include <map>
#include <string>

namespace sluice {
namespace {

int RankOfLayer(const RunPlan& plan, int layer, int replica) {
  const Partition& partition = plan.request.partition;
  size_t stage = 0;
  while (partition[stage].last < layer) ++stage;
  return plan.deal.first_rank(replica * plan.lowered.placement.model_stages() +
                              static_cast<int>(stage));
}

void AddTiedPairs(const RunPlan& plan, int replica, std::vector<TiedPair>* pairs) {
  struct Home {
    int index;
    int rank;
  };
  std::map<std::string, Home> homes;
  int index = 0;
  for (size_t layer = 0; layer < plan.layers.size(); ++layer) {
    const int rank = RankOfLayer(plan, static_cast<int>(layer), replica);
    for (const ParameterDecl& parameter : plan.layers[layer].parameters) {
      homes[parameter.name] = {index, rank};
      if (!parameter.tied_to.empty()) {
        const Home& home = homes.at(parameter.tied_to);
        pairs->push_back({.original = home.index,
                          .copy = index,
                          .original_rank = home.rank,
                          .copy_rank = rank,
                          .bytes = ElementCount(parameter.shape) * SizeOf(DType::kFloat32),
                          .replica = replica});
      }
      ++index;
    }
  }
}

}  // namespace

std::vector<TiedPair> TiedPairs(const RunPlan& plan) {
  std::vector<TiedPair> pairs;
  for (int replica = 0; replica < plan.lowered.placement.replicas(); ++replica)
    AddTiedPairs(plan, replica, &pairs);
  return pairs;
}

std::vector<std::pair<int, int>> TiedSwaps(const RunPlan& plan, const TiedPair& pair) {
  std::vector<std::pair<int, int>> swaps;
  if (!plan.dealt()) return {{pair.original_rank, pair.copy_rank}};
  const int originals = plan.holders(pair.original_rank);
  const int copies = plan.holders(pair.copy_rank);
  for (int i = std::max(originals, copies) - 1; i >= 0; --i) {
    swaps.emplace_back(plan.HolderRank(pair.original_rank, i % originals),
                       plan.HolderRank(pair.copy_rank, i % copies));
  }
  return swaps;
}

}  // namespace sluice
