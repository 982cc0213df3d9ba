#include "pipeline/audit/weights_seal.h"

#include <cstddef>

#include "pipeline/run/stage_digest.h"

namespace sluice {

WeightsSeal::Hashes WeightsSeal::HashesOf(const ParameterView& view) {
  Hashes hashes{.weight = HashBytes(view.weight, view.decl->bytes())};
  if (view.low_halves.values != nullptr) {
    hashes.low_halves =
        HashBytes(view.low_halves.values,
                  view.low_halves.count * static_cast<int64_t>(sizeof(*view.low_halves.values)));
  }
  return hashes;
}

void WeightsSeal::Take() {
  hashes_.clear();
  for (const ParameterView& view : state_.parameters()) hashes_.push_back(HashesOf(view));
}

int WeightsSeal::Broken() const {
  int broken = -1;
  const std::vector<ParameterView>& views = state_.parameters();
  for (size_t i = 0; i < views.size(); ++i) {
    const bool first = broken < 0 || views[i].global_index < broken;
    if (first && HashesOf(views[i]) != hashes_[i]) broken = views[i].global_index;
  }
  return broken;
}

uint64_t WeightsSeal::OfStage(int stage) const {
  std::vector<uint64_t> hashes;
  const std::vector<ParameterView>& views = state_.parameters();
  for (size_t i = 0; i < views.size(); ++i) {
    if (views[i].stage == stage) hashes.push_back(hashes_[i].weight);
  }
  return HashAll(hashes);
}

}  // namespace sluice
