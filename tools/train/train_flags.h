#ifndef SLUICE_TOOLS_TRAIN_TRAIN_FLAGS_H_
#define SLUICE_TOOLS_TRAIN_TRAIN_FLAGS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "models/data/dataset.h"
#include "pipeline/compile/run_plan.h"
#include "pipeline/train/trainer.h"
#include "tools/train/kernel_flags.h"
#include "tools/train/model_flags.h"
#include "tools/train/train_world.h"

namespace sluice {

constexpr int kDefaultRanks = 1;
constexpr int kDefaultMicroBatches = 8;

// `sluice train` as it was typed.
struct TrainFlags {
  ModelFlags model;
  std::string data;
  bool bytes = false;  // take those of `data` for tokens, whatever they are and the model reads
  int seq = 0;
  std::optional<int> stages;  // ranks of the pipeline
  std::string schedule = "1f1b";
  std::string timetable;  // CSV, of a plan with an order of its own
  int chunks = 0;
  std::string placement;  // of a file
  std::string partition;
  std::string plan;
  int micro_batch_size = 4;
  std::optional<int> micro_batches;
  std::optional<int> sum_groups;
  std::string dtype = "fp32";
  std::string recompute = "none";
  bool recompute_ahead = false;
  std::string optimizer = "adamw";
  std::optional<std::string> lr_schedule;
  KernelFlags kernels;
  bool cuda_graphs = false;
  WorldFlags world;
  int data_parallel = 1;
  std::string stage_replicas;  // "3,1"
  int zero = 0;
  int threads_per_stage = 1;
  std::string timeout = "30s";
  std::string trace;
  bool overwrite = false;  // replace another run's checkpoints in options.saving.directory
  bool json = false;
  bool no_pin = false;
  TrainOptions options;
};

void AddTrainFlags(CLI::App& command, TrainFlags* flags);

// What the flags ask to be trained, with the data set open.
struct TrainJob {
  RunRequest request;
  std::unique_ptr<Dataset> data;
  TrainOptions options;
};

// InvalidArgument says which flag is wrong, and what it takes.
absl::StatusOr<TrainJob> MakeTrainJob(const TrainFlags& flags);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_TRAIN_FLAGS_H_
