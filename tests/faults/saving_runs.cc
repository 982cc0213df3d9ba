#include "tests/faults/saving_runs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "pipeline/checkpoint/directory/run_directory.h"
#include "pipeline/checkpoint/files/checkpoint.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"
#include "pipeline/checkpoint/files/finite_tensors.h"
#include "pipeline/train/trainer.h"
#include "tests/comm/tcp/tcp_group.h"
#include "tests/models/data/files.h"
#include "tests/pipeline/small_run.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSeeds = 2;  // 1 and 2

const RunPlan& Plan() {
  static const auto* const plan = new RunPlan(MakePlan({.model = "mlp"}));
  return *plan;
}

int64_t StepOf(const fs::path& folder) {
  return ParseStepFolder(folder.filename().string()).value_or(-1);
}

std::map<WhichCheckpoint, CheckpointBytes> UndisturbedCheckpoints() {
  std::map<WhichCheckpoint, CheckpointBytes> checkpoints;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const TempFolder folder(FastFolder());
    const SavingRunEnd end = RunAndSave(folder / "run", {.seed = seed, .keep = kSavingSteps});
    EXPECT_TRUE(end.status.ok()) << end.status;
    for (int64_t step = 1; step <= kSavingSteps; ++step) {
      checkpoints[{seed, step}] = BytesOf(folder / absl::StrCat("run/", StepFolderName(step)));
    }
  }
  return checkpoints;
}

// Each rank has its own end of a connection. The status is rank 0's, or that of another one that
// has failed.
absl::Status TrainOverTcp(const Dataset& data, const TrainOptions& options,
                          const TrainEvents& events) {
  const auto group = MakeTcpGroup(Plan().world_size(), {});
  std::vector<absl::Status> ends(group.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < group.size(); ++rank) {
    threads.emplace_back([&, rank] {
      ends[rank] = TrainRank(Plan(), data, options, rank == 0 ? events : TrainEvents(), nullptr,
                             *group[rank])
                       .status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  absl::Status first = ends.front();
  for (const absl::Status& end : ends) first.Update(end);
  return first;
}

}  // namespace

SavingRunEnd RunAndSave(const std::string& directory, const SavingRunOptions& options) {
  SavingRunEnd end;
  const auto held = RunDirectory::Open({.directory = directory,
                                        .resume = options.resume,
                                        .overwrite = options.overwrite,
                                        .steps = kSavingSteps,
                                        .save_every = 1});
  end.status = held.status();
  if (!held.ok()) return end;
  TrainOptions train = SmallOptions(kSavingSteps);
  train.training.seed = options.seed;
  train.saving.directory = directory;
  train.saving.every = 1;
  train.saving.keep = options.keep;
  train.saving.resume = options.resume;
  TrainEvents events;
  events.on_checkpoint = [&end](const SaveOutcome& outcome) {
    end.saved.push_back(StepOf(outcome.path));
  };
  events.on_failed_checkpoint = [&end](const absl::Status& status) {
    end.failed.push_back(status);
  };
  const HashedData data(Plan().request.spec, Plan().request.batch.seq);
  end.status = options.tcp ? TrainOverTcp(data, train, events)
                           : TrainInProcess(Plan(), data, train, events, nullptr).status();
  return end;
}

CheckpointBytes BytesOf(const fs::path& folder) {
  CheckpointBytes bytes;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    bytes[entry.path().filename().string()] = ReadBytes(entry.path().string());
  }
  return bytes;
}

std::optional<WhichCheckpoint> Recognise(const CheckpointBytes& bytes) {
  static const auto* const all =
      new std::map<WhichCheckpoint, CheckpointBytes>(UndisturbedCheckpoints());
  for (const auto& [which, of] : *all) {
    if (of == bytes) return which;
  }
  return std::nullopt;
}

absl::StatusOr<WhichCheckpoint> OpenAndRecognise(const std::string& directory,
                                                 std::string* instead) {
  const absl::StatusOr<LoadedCheckpoint> opened = OpenNewestGoodCheckpoint(directory, instead);
  if (!opened.ok()) return opened.status();
  const std::optional<WhichCheckpoint> which = Recognise(BytesOf(opened->path));
  if (which && which->step == opened->state.step && which->seed == opened->state.seed) {
    return *which;
  }
  ADD_FAILURE() << opened->path << " was loaded, whose bytes no run has saved";
  return absl::DataLossError(opened->path);
}

fs::path FastFolder() {
  const fs::path memory = "/dev/shm";
  return access(memory.c_str(), W_OK | X_OK) == 0 ? memory : fs::temp_directory_path();
}

}  // namespace sluice
