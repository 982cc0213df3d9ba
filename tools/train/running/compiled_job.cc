#include "tools/train/running/compiled_job.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/nccl/nccl.h"
#include "models/device/cuda_device.h"
#include "pipeline/compile/compile_run.h"
#include "tools/files.h"
#include "tools/train/log/event_log.h"
#include "tools/train/log/run_log.h"
#include "tools/train/settings/kept_settings.h"
#include "tools/train/train_plan.h"

namespace sluice {
namespace {

// Puts the devices into the job's options.
absl::Status UseDevices(const TrainQuestion& question, CompiledJob* compiled) {
  Running& running = compiled->job.options.running;
  running.devices = compiled->devices->ranks();
  if (question.kernels.algorithms.empty()) return absl::OkStatus();
  std::set<std::string> gpus;
  for (const RankDevice& device : running.devices) gpus.insert(device.device->kind());
  absl::StatusOr<std::string> algorithms = TakeAlgorithms(question.kernels.algorithms, gpus);
  if (!algorithms.ok()) return algorithms.status();
  running.algorithms = *std::move(algorithms);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CompiledJob> Compile(const TrainQuestion& question, std::optional<int> ranks,
                                    std::shared_ptr<const Dataset> data) {
  absl::StatusOr<TrainJob> job = MakeTrainJob(question, ranks, std::move(data));
  if (!job.ok()) return job.status();
  absl::StatusOr<RunPlan> plan = CompileRun(job->request);
  if (!plan.ok()) return plan.status();
  std::string settings =
      question.timetable.plan.empty() ? question.settings : SettingsWithPlan(question, *plan);
  return CompiledJob{*std::move(job), std::make_shared<const RunPlan>(*std::move(plan)), nullptr,
                     std::move(settings)};
}

absl::StatusOr<CompiledJob> Compile(const TrainQuestion& question, const MeasuredSpeeds& speeds,
                                    int ranks, std::shared_ptr<const Dataset> data) {
  TrainQuestion of_speeds = question;
  of_speeds.speeds = speeds;
  return Compile(of_speeds, ranks, std::move(data));
}

absl::Status OpenDevices(const TrainQuestion& question, const WorldChoice& choice,
                         CompiledJob* compiled) {
  const bool threads = choice.transport == Transport::kInProcess;
  if (question.cuda_graphs.has_value() && !question.kernels.cuda) {
    return absl::InvalidArgumentError(
        absl::StrCat(*question.cuda_graphs ? "--cuda-graphs" : "--no-cuda-graphs",
                     " is about GPUs' graphs; it needs --device cuda"));
  }
  if (!question.kernels.cuda) {
    return choice.nccl ? absl::InvalidArgumentError(
                             "--transport nccl carries tensors of GPUs; it needs --device cuda")
                       : absl::OkStatus();
  }
  if (compiled->devices != nullptr) {
    compiled->devices->Reconnect(*compiled->plan);
    return UseDevices(question, compiled);
  }
  const RunPlan& plan = *compiled->plan;
  const OpenDevice open = [graphs = question.cuda_graphs.value_or(true)](
                              int number, const DeviceAllocator& allocator) {
    return OpenCudaDevice(number, {.allocator = allocator, .graphs = graphs});
  };
  absl::StatusOr<std::unique_ptr<RunDevices>> devices;
  if (threads && !choice.nccl) {
    devices = RunDevices::ForThreads(plan, CudaDeviceCount(), open);
  } else {
    absl::StatusOr<NcclApi*> nccl = LoadNccl();
    if (!nccl.ok()) return nccl.status();
    std::vector<int> ranks = {choice.launch.rank};
    for (int rank = 1; threads && rank < plan.world_size(); ++rank) ranks.push_back(rank);
    devices = RunDevices::OverNccl(
        plan, ranks, std::max(choice.launch.local_rank, 0), CudaDeviceCount(), open,
        {.nccl = *nccl, .timeout = compiled->job.options.watching.timeout});
  }
  if (!devices.ok()) return devices.status();
  compiled->devices = *std::move(devices);
  return UseDevices(question, compiled);
}

absl::Status CheckOutputs(const TrainQuestion& question, const TrainOptions& options,
                          std::unique_ptr<RunDirectory>* saving, Descriptor lock) {
  if (!options.saving.directory.empty()) {
    absl::StatusOr<std::unique_ptr<RunDirectory>> opened =
        RunDirectory::Open({.directory = options.saving.directory,
                            .resume = options.saving.resume,
                            .overwrite = question.overwrite,
                            .steps = options.training.steps,
                            .save_every = options.saving.every,
                            .given = options.training.given,
                            .base = BaseOf(options.saving)},
                           std::move(lock));
    if (!opened.ok()) return opened.status();
    *saving = *std::move(opened);
    absl::Status status = CheckSettingsFile(options.saving.directory);
    if (!status.ok()) return status;
  }
  if (!question.log.empty()) {
    if (absl::Status status = CheckRunLog(question.log); !status.ok()) return status;
  }
  if (!question.tensorboard.empty()) {
    if (absl::Status status = CheckEventLog(question.tensorboard); !status.ok()) return status;
  }
  return question.trace.empty() ? absl::OkStatus() : CheckOutput(question.trace);
}

}  // namespace sluice
