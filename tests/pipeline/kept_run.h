#ifndef SLUICE_TESTS_PIPELINE_KEPT_RUN_H_
#define SLUICE_TESTS_PIPELINE_KEPT_RUN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/state/rank_state.h"
#include "pipeline/state/state_gather.h"
#include "tests/pipeline/small_run.h"

namespace sluice {

// A run whose ranks' memory outlives it, so that a test can look at what it left there.
struct KeptRun {
  Outcome outcome;
  std::vector<std::unique_ptr<RankState>> states;  // [rank]
};

// Trains `plan`, which must outlive the answer, as TrainInProcess does: from the seed, or from
// options.saving.resume, on options.running.devices.
absl::StatusOr<KeptRun> TrainAndKeep(const RunPlan& plan, const TrainOptions& options);

// A rank's copy of a tensor of another's state, by the parameter's place in the model's canonical
// order: `data` is null where it mirrors none such.
HeldTensor MirroredTensor(const RankState& state, int global_index, StateKind kind);

// Every difference between a rank's trained weights and optimizer state and what its mirror has of
// them, to the bit, one line each; "" where there is none.
std::string MirrorDifferences(const std::vector<std::unique_ptr<RankState>>& states);

}  // namespace sluice

#endif  // SLUICE_TESTS_PIPELINE_KEPT_RUN_H_
