#include "pipeline/checkpoint/directory/run_directory.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/files/file_writer.h"
#include "models/files/mapped_file.h"
#include "pipeline/checkpoint/directory/own_folder.h"
#include "pipeline/checkpoint/directory/replaced_run.h"
#include "pipeline/checkpoint/directory/step_folders.h"
#include "pipeline/checkpoint/files/checkpoint.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

absl::Status Refused(absl::string_view what) { return absl::FailedPreconditionError(what); }

// What has gone wrong, with the flag that it is about.
absl::Status Named(const std::string& directory, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("--save ", directory, ": ", status.message()));
}

absl::Status CheckWritable(const std::string& directory) {
  if (access(directory.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return FileError(errno, "cannot write checkpoints there");
}

absl::StatusOr<std::unique_ptr<FolderLock>> TakeLock(const std::string& directory,
                                                     Descriptor shared) {
  absl::StatusOr<std::unique_ptr<FolderLock>> lock =
      FolderLock::Take(OwnPath(directory, kLockFile), std::move(shared));
  if (!absl::IsAlreadyExists(lock.status())) return lock;
  return Refused(absl::StrCat("another run is saving there: ", lock.status().message(),
                              "; wait for its end or stop it, or save to another directory"));
}

// Whether `folder`, a checkpoint's, is one of those in `directory`, or was before it was removed.
bool LiesIn(const fs::path& folder, const std::string& directory) {
  std::error_code ignored;
  const fs::path real = fs::weakly_canonical(folder, ignored);
  return !real.empty() && fs::equivalent(real.parent_path(), directory, ignored);
}

// `latest` and where it leads, or the newest checkpoint where there is no such link.
std::string WhatIsThere(const std::string& directory, int64_t newest) {
  std::error_code error;
  const fs::path target = fs::read_symlink(fs::path(directory) / kLatestLink, error);
  return error ? absl::StrCat("no '", kLatestLink, "', the newest is ", StepFolderName(newest))
               : absl::StrCat(kLatestLink, " -> ", target.string());
}

// Whether the checkpoints in the directory, if any, are those of `run`, or to be replaced by its.
absl::Status CheckOwner(const SavingRun& run, bool goes_on, const std::vector<int64_t>& steps) {
  if (goes_on && run.overwrite) {
    return Refused(absl::StrCat("--overwrite replaces the checkpoints there, and --resume ",
                                run.resume, " goes on from one of them; give one of the two"));
  }
  if (steps.empty() || goes_on || run.overwrite) return absl::OkStatus();
  return Refused(absl::StrCat("the checkpoints of another run are there (",
                              WhatIsThere(run.directory, steps.back()),
                              "); go on from them with --resume ", run.directory,
                              ", or have them replaced with --overwrite"));
}

// What the checkpoint in `folder` says; where nobody can say, whoever resumes from it will say why.
std::optional<RunState> StateOf(const fs::path& folder) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open((folder / kStateFile).string());
  if (!file.ok()) return std::nullopt;
  const auto* text = reinterpret_cast<const char*>(file->bytes().data());
  absl::StatusOr<StateFile> state = ParseState({text, file->bytes().size()});
  if (!state.ok()) return std::nullopt;
  return std::move(state->state);
}

// A checkpoint of an adapter lacks the model that the adapter is for, so that model must not be one
// of those that the run replaces. `from`: what the run goes on from.
absl::Status CheckBase(const SavingRun& run, const std::optional<RunState>& from,
                       const std::vector<int64_t>& steps) {
  const std::string base = run.base.empty() && from ? from->base : run.base;
  if (!run.overwrite || base.empty()) return absl::OkStatus();
  std::error_code ignored;
  const fs::path folder = fs::is_regular_file(base, ignored)
                              ? fs::canonical(base, ignored).parent_path()
                              : fs::path(FindCheckpoint(base).value_or(base));
  for (const int64_t step : steps) {
    if (!fs::equivalent(folder, fs::path(run.directory) / StepFolderName(step), ignored)) continue;
    return Refused(absl::StrCat("--overwrite would remove ", StepFolderName(step),
                                ", the model that the adapter is for (", base,
                                "), which no checkpoint of an adapter has; save to another "
                                "directory"));
  }
  return absl::OkStatus();
}

// The steps that the run goes on to from `state`.
int64_t StepsFrom(const RunState& state, const SavingRun& run) {
  HyperParameters usual;
  usual.steps = run.steps;
  // Which optimizer it is does not matter to the number of steps.
  const absl::StatusOr<ResumedHyperParameters> resumed =
      ResumeHyperParameters(state.hyper_parameters, usual, run.given, OptimizerKind::kAdamW);
  return resumed.ok() ? resumed->values.steps : run.steps;
}

// Whether `run`, from step `first` on, saves after `step`, unless it is stopped.
bool SavesAt(const SavingRun& run, int64_t first, int64_t step) {
  const int64_t last = std::max(first, run.steps);
  if (step == last) return true;
  return run.save_every > 0 && step > first && step < last && step % run.save_every == 0;
}

absl::Status CheckNames(const SavingRun& run, int64_t first) {
  for (const int64_t step : StepsIn(run.directory)) {
    const fs::path folder = fs::path(run.directory) / StepFolderName(step);
    if (!SavesAt(run, first, step) || IsCheckpoint(folder.string())) continue;
    return Refused(absl::StrCat(StepFolderName(step), " there is not a checkpoint that sluice ",
                                "wrote, and this run needs its name; move it away, or save to ",
                                "another directory"));
  }
  return absl::OkStatus();
}

// With the lock held.
absl::Status Prepare(SavingRun run, const std::optional<fs::path>& from) {
  const bool goes_on = from && LiesIn(*from, run.directory);
  if (goes_on && run.has_begun) run.overwrite = false;  // they are its own
  std::optional<int64_t> first = 0;
  std::optional<RunState> state;
  if (from) {
    state = StateOf(*from);
    first = state ? std::optional<int64_t>(state->step) : std::nullopt;
    if (state) run.steps = StepsFrom(*state, run);
  }
  SettleReplaced(run.directory, goes_on ? first : std::nullopt);
  const std::vector<int64_t> steps = CheckpointsIn(run.directory);
  absl::Status status = CheckOwner(run, goes_on, steps);
  if (status.ok()) status = CheckBase(run, state, steps);
  if (status.ok()) status = CheckLatestLink(run.directory);
  if (status.ok() && first) status = CheckNames(run, *first);
  if (status.ok() && run.overwrite && !steps.empty()) status = NoteReplaced(run.directory);
  if (status.ok()) status = NoteGivenUp(run.directory, goes_on ? first : std::nullopt);
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunDirectory>> RunDirectory::Open(const SavingRun& run,
                                                                 Descriptor lock) {
  std::optional<fs::path> from;
  if (!run.resume.empty()) {
    const absl::StatusOr<std::string> found = FindCheckpointToResume(run.resume);
    if (!found.ok() && !(run.has_begun && absl::IsNotFound(found.status()))) return found.status();
    from = found.value_or(run.resume);
  }
  absl::Status status = MakeOwnFolder(run.directory);
  if (status.ok()) status = CheckWritable(run.directory);
  if (!status.ok()) return Named(run.directory, status);
  absl::StatusOr<std::unique_ptr<FolderLock>> taken = TakeLock(run.directory, std::move(lock));
  status = taken.ok() ? Prepare(run, from) : taken.status();
  if (!status.ok()) return Named(run.directory, status);
  return std::unique_ptr<RunDirectory>(new RunDirectory(run.directory, *std::move(taken)));
}

absl::StatusOr<RemovedCheckpoints> RunDirectory::RemoveAfter(int64_t step) const {
  std::vector<int64_t> steps = CheckpointsIn(directory_);
  const auto wrong = std::upper_bound(steps.begin(), steps.end(), step);
  RemovedCheckpoints removed;
  removed.leaves_some = wrong != steps.begin();
  if (wrong == steps.end()) return removed;
  absl::Status status = wrong == steps.begin() ? RemoveLatestLink(directory_)
                                               : PointLatestLink(directory_, *std::prev(wrong));
  if (!status.ok()) return Named(directory_, status);
  for (auto last = steps.end(); last != wrong; --last) {
    const int64_t newest = *std::prev(last);
    const std::string folder = (fs::path(directory_) / StepFolderName(newest)).string();
    if (!RemoveCheckpoint(directory_, newest)) {
      return Refused(absl::StrCat(folder, " cannot be removed: ", std::strerror(errno),
                                  "; its values may be wrong: remove it, and go on with --resume"));
    }
    removed.paths.push_back(folder);
  }
  return removed;
}

}  // namespace sluice
