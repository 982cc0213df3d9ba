#ifndef SLUICE_PIPELINE_COMPILE_REPLICAS_TIED_PARAMETERS_H_
#define SLUICE_PIPELINE_COMPILE_REPLICAS_TIED_PARAMETERS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "pipeline/compile/plan/run_plan.h"

namespace sluice {

// Two parameters that always hold the same weights (a tied head and its embedding), and get the sum
// of the two gradients. Where they are on two ranks, each keeps its own copy of the weights, with its
// own optimizer state; on one rank they share both.
struct TiedPair {
  int original = 0;       // canonical index
  int copy = 0;           // canonical index of the parameter with tied_to
  int original_rank = 0;  // of the pipeline; the first of a stage's members
  int copy_rank = 0;
  int64_t bytes = 0;   // of one gradient
  int model_copy = 0;  // that both belong to, where the timetable has several copies of the model
};

std::vector<TiedPair> TiedPairs(const RunPlan& plan);

// Pairs of a pipeline's ranks (original's, copy's) that tell each other their gradients of `pair`,
// so that every rank that holds either gets the other's. Members of the stage that has fewer
// are in several pairs; they add only what the last one brings, having passed on their own before.
std::vector<std::pair<int, int>> TiedSwaps(const RunPlan& plan, const TiedPair& pair);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_REPLICAS_TIED_PARAMETERS_H_
