#include "pipeline/compile/replicas/tied_parameters.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/string_view.h"

namespace sluice {
namespace {

int RankOfLayer(const RunPlan& plan, int layer, int model_copy) {
  const Partition& partition = plan.request.partition;
  size_t stage = 0;
  while (partition[stage].last < layer) ++stage;
  return plan.deal.first_rank(model_copy * plan.lowered.placement.model_stages() +
                              static_cast<int>(stage));
}

bool IsTied(const ParameterDecl& parameter) {
  return !parameter.tied_to.empty() && !parameter.frozen;
}

// The parameters that others are tied to, by their names.
std::set<absl::string_view> Originals(const RunPlan& plan) {
  std::set<absl::string_view> names;
  for (const LayerDecl& layer : plan.layers) {
    for (const ParameterDecl& parameter : layer.parameters) {
      if (IsTied(parameter)) names.insert(parameter.tied_to);
    }
  }
  return names;
}

// Asks for the ranks of tied parameters alone: there are few, and to find a layer's stage takes a
// walk over the stages, which every rank does while it lays out its memory.
void AddTiedPairs(const RunPlan& plan, const std::set<absl::string_view>& originals, int model_copy,
                  std::vector<TiedPair>* pairs) {
  struct Home {
    int index;
    int rank;
  };
  std::map<absl::string_view, Home> homes;
  int index = 0;
  for (size_t layer = 0; layer < plan.layers.size(); ++layer) {
    for (const ParameterDecl& parameter : plan.layers[layer].parameters) {
      const bool is_tied = IsTied(parameter), is_original = originals.contains(parameter.name);
      const int rank =
          is_tied || is_original ? RankOfLayer(plan, static_cast<int>(layer), model_copy) : 0;
      if (is_original) homes[parameter.name] = {index, rank};
      if (is_tied) {
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
  const std::set<absl::string_view> originals = Originals(plan);
  if (originals.empty()) return pairs;
  for (int model_copy = 0; model_copy < plan.lowered.placement.copies(); ++model_copy)
    AddTiedPairs(plan, originals, model_copy, &pairs);
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
