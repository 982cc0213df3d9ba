#ifndef SLUICE_TOOLS_TRAIN_TRAIN_JOB_H_
#define SLUICE_TOOLS_TRAIN_TRAIN_JOB_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "models/data/dataset.h"
#include "pipeline/compile/plan/run_request.h"
#include "pipeline/train/run.h"
#include "schedules/simulate/stage_costs.h"
#include "tools/train/train_question.h"

namespace sluice {

// An answered question: what to train, with the data set open.
struct TrainJob {
  RunRequest request;
  // For the picture of --tensorboard, and empty without it: what the stages are expected to take
  // before anything is measured, by the FLOPs of their layers, and by what the question knows of
  // ranks' speeds. Only ratios mean something. Of a stage that several ranks share, one of them.
  StageCosts costs;
  std::shared_ptr<const Dataset> data;
  std::string note;  // on what the question may not have meant; empty: nothing
  TrainOptions options;
};

// Reads the plan if there is one, chooses model and partition, and opens the data. InvalidArgument
// says which flag is wrong, and what it takes. `ranks`: those there are, where the question leaves
// their use open; nullopt: threads, one per core. `opened`: the data of an earlier answer to the same
// question, which may take long to open; null: they are opened.
absl::StatusOr<TrainJob> MakeTrainJob(const TrainQuestion& question,
                                      std::optional<int> ranks = std::nullopt,
                                      std::shared_ptr<const Dataset> opened = nullptr);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_TRAIN_JOB_H_
