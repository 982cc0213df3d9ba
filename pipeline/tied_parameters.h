#ifndef SLUICE_PIPELINE_TIED_PARAMETERS_H_
#define SLUICE_PIPELINE_TIED_PARAMETERS_H_

#include <cstdint>
#include <vector>

#include "pipeline/run_plan.h"

namespace sluice {

// Two parameters that always hold the same weights (a tied head and its embedding). Each rank keeps
// its own copy, with its own optimizer state, and both get the sum of the two gradients.
struct TiedPair {
  int original = 0;  // canonical index
  int copy = 0;      // canonical index of the parameter with tied_to
  int original_rank = 0;
  int copy_rank = 0;
  int64_t bytes = 0;  // of one gradient
  int replica = 0;    // copy of the model that both belong to
};

std::vector<TiedPair> TiedPairs(const RunPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TIED_PARAMETERS_H_
