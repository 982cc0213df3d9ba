#ifndef SLUICE_PIPELINE_WEIGHTS_HASH_H_
#define SLUICE_PIPELINE_WEIGHTS_HASH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "pipeline/rank_state.h"

namespace sluice {

// The view of every parameter of the model in canonical order, whichever of the states holds it.
std::vector<ParameterView> AllParameters(const RunPlan& plan,
                                         const std::vector<std::unique_ptr<RankState>>& states);

// XXH3-64 over the bytes of every weight in canonical order: equal exactly when all weights are, to
// the bit.
uint64_t HashWeights(const RunPlan& plan, const std::vector<std::unique_ptr<RankState>>& states);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_WEIGHTS_HASH_H_
