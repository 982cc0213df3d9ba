#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/train_flags.h"
#include "tools/train_output.h"

namespace sluice {
namespace {

constexpr char kExample[] =
    "Examples:\n"
    "  sluice train --data bible.txt --stages 2 --steps 200 --save out\n"
    "  sluice train --data bible.txt --stages 4 --steps 400 --save out --resume out\n"
    "  sluice train --model mlp --data /usr/share/datasets/fashion-mnist \\\n"
    "               --micro-batch-size 50 --stages 2 --steps 500";

// Set by Ctrl-C; the run ends after the step that it is in. A second Ctrl-C ends the process at
// once.
std::atomic<bool> interrupted{false};

void OnInterrupt(int) {
  interrupted.store(true);
  std::signal(SIGINT, SIG_DFL);
}

TrainEvents EventsFor(TrainOutput* output) {
  return {
      .on_step = [output](const StepMetrics& metrics) { output->Step(metrics); },
      .on_evaluation = [output](const Evaluation& evaluation) { output->Evaluated(evaluation); },
      .on_checkpoint = [output](const std::string& path) { output->Saved(path); }};
}

// Whether what the run is to leave can be written, before hours go into it.
absl::Status CheckOutputs(const TrainFlags& flags) {
  const std::string& save = flags.options.save_dir;
  if (!save.empty()) {
    std::error_code error;
    std::filesystem::create_directories(save, error);
    if (error || access(save.c_str(), W_OK | X_OK) != 0) {
      const std::string why = error ? error.message() : std::strerror(errno);
      return absl::InvalidArgumentError(
          absl::StrCat("--save ", save, ": cannot write checkpoints there: ", why));
    }
  }
  return flags.trace.empty() ? absl::OkStatus() : WriteOutput(flags.trace, "");
}

// The file that CheckOutputs has tried to write is of no use to anybody when the run fails.
void DropEmptyTrace(const TrainFlags& flags) {
  std::error_code error;
  if (flags.trace.empty() || !std::filesystem::is_regular_file(flags.trace, error)) return;
  if (std::filesystem::file_size(flags.trace, error) == 0 && !error)
    std::filesystem::remove(flags.trace, error);
}

int RunTrain(const TrainFlags& flags) {
  absl::StatusOr<TrainJob> job = MakeTrainJob(flags);
  if (!job.ok()) return Fail(job.status());
  absl::StatusOr<RunPlan> plan = CompileRun(job->request);
  if (!plan.ok()) return Fail(plan.status());
  if (absl::Status status = CheckOutputs(flags); !status.ok()) return Fail(status);
  std::unique_ptr<TrainOutput> output = flags.json ? MakeJsonOutput() : MakeTableOutput();
  output->Start(*plan, *job->data, job->options.steps);
  std::signal(SIGINT, OnInterrupt);
  std::signal(SIGXFSZ, SIG_IGN);  // writing beyond a limit is an error to report, as a full disk is
  absl::StatusOr<TrainResult> result =
      TrainInProcess(*plan, *job->data, job->options, EventsFor(output.get()), &interrupted);
  if (!result.ok()) {
    DropEmptyTrace(flags);
    return Fail(result.status());
  }
  output->Done(result->summary);
  if (!flags.trace.empty()) {
    absl::Status written = WriteOutput(flags.trace, FormatTrace(result->trace, plan->lowered));
    if (!written.ok()) return Fail(written);
  }
  return result->summary.interrupted ? kExitInterrupted : kExitDone;
}

}  // namespace

void AddTrainCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("train", "Train a model across pipeline stages");
  command->footer(kExample);
  auto flags = std::make_shared<TrainFlags>();
  AddTrainFlags(*command, flags.get());
  command->callback([flags, exit_code] { *exit_code = RunTrain(*flags); });
}

}  // namespace sluice
