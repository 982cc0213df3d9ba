#include "pipeline/tied_parameters.h"

#include <algorithm>
#include <map>
#include <string>

namespace sluice {
namespace {

int RankOfLayer(const RunPlan& plan, int layer) {
  const Partition& partition = plan.request.partition;
  size_t stage = 0;
  while (partition[stage].last < layer) ++stage;
  return plan.lowered.placement.rank(static_cast<int>(stage));
}

}  // namespace

std::vector<TiedPair> TiedPairs(const RunPlan& plan) {
  struct Home {
    int index;
    int rank;
  };
  std::map<std::string, Home> homes;
  std::vector<TiedPair> pairs;
  int index = 0;
  for (size_t layer = 0; layer < plan.layers.size(); ++layer) {
    const int rank = RankOfLayer(plan, static_cast<int>(layer));
    for (const ParameterDecl& parameter : plan.layers[layer].parameters) {
      homes[parameter.name] = {index, rank};
      if (!parameter.tied_to.empty()) {
        const Home& home = homes.at(parameter.tied_to);
        pairs.push_back({.original = home.index,
                         .copy = index,
                         .original_rank = home.rank,
                         .copy_rank = rank,
                         .bytes = ElementCount(parameter.shape) * SizeOf(DType::kFloat32)});
      }
      ++index;
    }
  }
  return pairs;
}

}  // namespace sluice
