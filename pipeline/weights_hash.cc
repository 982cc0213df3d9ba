#include "pipeline/weights_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {

std::vector<ParameterView> AllParameters(const RunPlan& plan,
                                         const std::vector<std::unique_ptr<RankState>>& states) {
  std::vector<ParameterView> all(CanonicalParameters(plan).size());
  for (const std::unique_ptr<RankState>& state : states) {
    for (const ParameterView& view : state->parameters()) {
      // Copies of the model are equal; the first stands for them.
      if (view.replica == 0) all[static_cast<size_t>(view.global_index)] = view;
    }
  }
  return all;
}

uint64_t HashWeights(const RunPlan& plan, const std::vector<std::unique_ptr<RankState>>& states) {
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  for (const ParameterView& view : AllParameters(plan, states)) {
    XXH3_64bits_update(&hash, view.weight, static_cast<size_t>(view.elements) * sizeof(float));
  }
  return XXH3_64bits_digest(&hash);
}

}  // namespace sluice
