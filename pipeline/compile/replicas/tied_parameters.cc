#include "pipeline/compile/replicas/tied_parameters.h"

#include <algorithm>
#include <map>
#include <string>

namespace sluice {
namespace {

int RankOfLayer(const RunPlan& plan, int layer, int model_copy) {
  const Partition& partition = plan.request.partition;
  size_t stage = 0;
  while (partition[stage].last < layer) ++stage;
  return plan.deal.first_rank(model_copy * plan.lowered.placement.model_stages() +
                              static_cast<int>(stage));
}

void AddTiedPairs(const RunPlan& plan, int model_copy, std::vector<TiedPair>* pairs) {
  struct Home {
    int index;
    int rank;
  };
  std::map<std::string, Home> homes;
  int index = 0;
  for (size_t layer = 0; layer < plan.layers.size(); ++layer) {
    const int rank = RankOfLayer(plan, static_cast<int>(layer), model_copy);
    for (const ParameterDecl& parameter : plan.layers[layer].parameters) {
      homes[parameter.name] = {index, rank};
      if (!parameter.tied_to.empty() && !parameter.frozen) {
        const Home& home = homes.at(parameter.tied_to);
        pairs->push_back({.original = home.index,
                          .copy = index,
                          .original_rank = home.rank,
                          .copy_rank = rank,
                          .bytes = ElementCount(parameter.shape) * SizeOf(DType::kFloat32),
                          .model_copy = model_copy});
      }
      ++index;
    }
  }
}

}  // namespace

std::vector<TiedPair> TiedPairs(const RunPlan& plan) {
  std::vector<TiedPair> pairs;
  for (int model_copy = 0; model_copy < plan.lowered.placement.copies(); ++model_copy)
    AddTiedPairs(plan, model_copy, &pairs);
  return pairs;
}

std::vector<std::pair<int, int>> TiedSwaps(const RunPlan& plan, const TiedPair& pair) {
  std::vector<std::pair<int, int>> swaps;
  if (!plan.has_stage_members()) return {{pair.original_rank, pair.copy_rank}};
  const RankGroup originals = plan.GroupOf(pair.original_rank);
  const RankGroup copies = plan.GroupOf(pair.copy_rank);
  for (int i = std::max(originals.size, copies.size) - 1; i >= 0; --i)
    swaps.emplace_back(originals.rank(i % originals.size), copies.rank(i % copies.size));
  return swaps;
}

}  // namespace sluice
