#include "partitioner/planning/graph/graph_chain.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "partitioner/cuts/downsets.h"

namespace sluice {

absl::StatusOr<std::shared_ptr<const CostTable>> ChainOf(const ProfileGraph& graph) {
  const Downsets sets = Downsets::Prefixes(graph);
  const GraphWork work(graph, sets);
  std::vector<LayerCost> layers;
  const auto bytes = [](double more, double less) { return std::llround(more - less); };
  // Prefixes are numbered by seconds and then by size: in order.
  for (int end = 1; end < sets.size(); ++end) {
    LayerCost layer;
    layer.name = absl::StrCat(end - 1);
    layer.forward_seconds = work.forward[end] - work.forward[end - 1];
    layer.input_grad_seconds = (work.backward[end] - work.backward[end - 1]) / 2;
    layer.weight_grad_seconds = layer.input_grad_seconds;
    layer.parameter_bytes = 4 * bytes(sets.parameter_bytes(end), sets.parameter_bytes(end - 1));
    layer.saved_bytes[0] = bytes(sets.activation_bytes(end), sets.activation_bytes(end - 1));
    layer.weight_grad_bytes = layer.saved_bytes[0];
    layer.output_bytes = std::llround(sets.cut_bytes(end));
    layers.push_back(std::move(layer));
  }
  return CostTable::CreateShared(std::move(layers));
}

ProfileGraph InOrder(const ProfileGraph& graph, const std::vector<int>& order) {
  std::vector<int> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int>(i);
  ProfileGraph sorted;
  for (const int node : order) {
    ProfileNode& added = sorted.nodes.emplace_back(graph.nodes[node]);
    for (std::vector<int>* others : {&added.sources, &added.users}) {
      for (int& other : *others) other = place[other];
      std::sort(others->begin(), others->end());
    }
  }
  return sorted;
}

GraphCuts CutsBetween(const GraphWork& work, const std::vector<std::vector<int>>& stages) {
  std::vector<int> order;
  for (const std::vector<int>& stage : stages)
    order.insert(order.end(), stage.begin(), stage.end());
  const std::vector<int> prefixes = work.sets.Along(order);
  GraphCuts cuts = {0};
  size_t end = 0;
  for (const std::vector<int>& stage : stages) {
    end += stage.size();
    if (prefixes[end] < 0) return {};
    cuts.push_back(prefixes[end]);
  }
  return cuts;
}

}  // namespace sluice
