#include "pipeline/compile/plan/sharding.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

namespace sluice {
namespace {

// The `count` ranks of a group that own least; of equals the first ones.
std::vector<bool> LeastLoaded(const std::vector<int64_t>& owned, size_t count) {
  std::vector<size_t> order(owned.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&owned](size_t a, size_t b) { return owned[a] < owned[b]; });
  std::vector<bool> chosen(owned.size());
  for (size_t i = 0; i < count; ++i) chosen[order[i]] = true;
  return chosen;
}

std::vector<int64_t> CutOne(int64_t elements, const std::vector<int64_t>& owned) {
  const auto ranks = static_cast<int64_t>(owned.size());
  const int64_t blocks = (elements + kShardBlock - 1) / kShardBlock;
  const std::vector<bool> more = LeastLoaded(owned, static_cast<size_t>(blocks % ranks));
  std::vector<int64_t> bounds = {0};
  int64_t end = 0;  // in blocks
  for (const bool one_more : more) {
    end += blocks / ranks + (one_more ? 1 : 0);
    bounds.push_back(std::min(elements, end * kShardBlock));
  }
  return bounds;
}

}  // namespace

ShardBounds CutParameters(const std::vector<LayerDecl>& layers,
                          const std::vector<int>& rank_of_layer,
                          const std::vector<int>& slices_of_layer) {
  ShardBounds all;
  std::map<std::string, size_t> index_of;             // by name
  std::map<int, std::vector<int64_t>> owned_on_rank;  // [pipeline rank][of its group]: elements
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    std::vector<int64_t>& owned = owned_on_rank[rank_of_layer[layer]];
    owned.resize(static_cast<size_t>(slices_of_layer[layer]));
    for (const ParameterDecl& parameter : layers[layer].parameters) {
      index_of[parameter.name] = all.size();
      std::vector<int64_t> bounds;
      if (!parameter.tied_to.empty()) bounds = all[index_of.at(parameter.tied_to)];
      if (bounds.size() != owned.size() + 1) bounds = CutOne(ElementCount(parameter.shape), owned);
      // Of what is frozen nobody has anything to divide.
      for (size_t k = 0; k < owned.size() && !parameter.frozen; ++k)
        owned[k] += bounds[k + 1] - bounds[k];
      all.push_back(bounds);
    }
  }
  return all;
}

}  // namespace sluice
