#ifndef SLUICE_PIPELINE_TRAIN_START_AGREEMENT_H_
#define SLUICE_PIPELINE_TRAIN_START_AGREEMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "models/data/dataset.h"
#include "pipeline/compile/plan/run_plan.h"
#include "pipeline/train/run.h"

namespace sluice {

// Something that all ranks of a run must have alike.
struct RunTrait {
  std::string name;  // "the data"
  uint64_t hash = 0;
  // The value itself, where people know it, of which kLongestShown bytes are shown; empty on all ranks
  // for what is too long or means nothing to people.
  std::string shown = {};
  std::string advice = {};  // what to do where the values differ
};
inline constexpr size_t kLongestShown = 128;

// What a rank has read before the first step.
struct RunStart {
  int64_t step = 0;         // after which it goes on
  uint64_t checkpoint = 0;  // LoadedCheckpoint::hash of the one to go on from; 0: none
  uint64_t weights = 0;     // SampleTensors of the files of --init and --adapter; 0: none
};

// All of a run's, in an order that depends on nothing.
std::vector<RunTrait> TraitsOf(const RunPlan& plan, const TrainOptions& options,
                               const Dataset& data, const RunStart& start);

// Compares the traits of all ranks: those that differ would misread each other's messages, or train
// something else than was asked for. FailedPrecondition, with the same words on every rank, says in
// what which ranks differ from rank 0, where it can be shown the two values, and what to do. Its
// Where::moment is kAgreement.
absl::Status CheckAgreement(const std::vector<RunTrait>& mine, Communicator& world,
                            absl::Duration timeout);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_START_AGREEMENT_H_
