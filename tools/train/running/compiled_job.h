#ifndef SLUICE_TOOLS_TRAIN_RUNNING_COMPILED_JOB_H_
#define SLUICE_TOOLS_TRAIN_RUNNING_COMPILED_JOB_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "comm/tcp/tcp_socket.h"
#include "pipeline/checkpoint/directory/run_directory.h"
#include "pipeline/compile/plan/run_plan.h"
#include "tools/train/replanning/measured_speeds.h"
#include "tools/train/train_device.h"
#include "tools/train/train_job.h"
#include "tools/train/train_world.h"

namespace sluice {

// What the flags ask for, ready to run.
struct CompiledJob {
  TrainJob job;
  std::shared_ptr<const RunPlan> plan;
  std::unique_ptr<RunDevices> devices;  // null on the CPU
  std::string settings = {};            // the text of run.toml
};

// `data`, `ranks`: as MakeTrainJob takes them.
absl::StatusOr<CompiledJob> Compile(const TrainQuestion& question,
                                    std::optional<int> ranks = std::nullopt,
                                    std::shared_ptr<const Dataset> data = nullptr);
// For ranks of these speeds.
absl::StatusOr<CompiledJob> Compile(const TrainQuestion& question, const MeasuredSpeeds& speeds,
                                    int ranks, std::shared_ptr<const Dataset> data);

// Opens the devices of this process's ranks, for the job's options; none on the CPU. Where
// `compiled` already has those of its last plan, these are connected anew.
absl::Status OpenDevices(const TrainQuestion& question, const WorldChoice& choice,
                         CompiledJob* compiled);

// Checks that the outputs of the run can be written, before hours of training. Where it saves,
// `*saving` holds the lock of the directory from now on. `lock`: as RunDirectory::Open takes it.
absl::Status CheckOutputs(const TrainQuestion& question, const TrainOptions& options,
                          std::unique_ptr<RunDirectory>* saving, Descriptor lock = Descriptor());

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_RUNNING_COMPILED_JOB_H_
