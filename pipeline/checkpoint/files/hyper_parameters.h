#ifndef SLUICE_PIPELINE_CHECKPOINT_FILES_HYPER_PARAMETERS_H_
#define SLUICE_PIPELINE_CHECKPOINT_FILES_HYPER_PARAMETERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/spec/optimizer_kind.h"
#include "pipeline/state/optimizer.h"

namespace sluice {

// The numbers that decide how far each step goes. `steps` is the length of the whole run, which a
// cosine is spread over.
struct HyperParameters {
  OptimizerOptions optimizer;
  int64_t steps = 100;
};

// Those that somebody asked for. Where nothing is said, a run that goes on from a checkpoint keeps
// what it was saved with, and any other run takes the usual value.
struct GivenHyperParameters {
  std::optional<double> lr = {}, weight_decay = {}, clip = {}, momentum = {};
  std::optional<int64_t> warmup = {};
  std::optional<LrSchedule> schedule = {};
  std::optional<int64_t> steps = {};
};

// `usual`, but for what was given.
HyperParameters WithGiven(const HyperParameters& usual, const GivenHyperParameters& given);

// As state.json has them, by name: "lr", "weight_decay", "cosine" (1 or 0), ...
std::map<std::string, double> ToNamedNumbers(const HyperParameters& values);

// What a run goes on with.
struct ResumedHyperParameters {
  HyperParameters values;
  // A line for each one that was given and is not the checkpoint's: "lr 0.004 in the checkpoint,
  // 0.001 given: going on with 0.001".
  std::vector<std::string> differences;
};

// What a run of the optimizer `kind` goes on with from a checkpoint that has `saved`: with that,
// but for what was given. The number of steps is the checkpoint's only under a cosine, which
// depends on it; else, and for what an older checkpoint lacks, the value is the usual one.
// InvalidArgument where the checkpoint has a number that no run can use, and none was given
// instead.
absl::StatusOr<ResumedHyperParameters> ResumeHyperParameters(
    const std::map<std::string, double>& saved, const HyperParameters& usual,
    const GivenHyperParameters& given, OptimizerKind kind);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_FILES_HYPER_PARAMETERS_H_
