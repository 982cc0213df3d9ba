#include "pipeline/checkpoint/directory/checkpoint_folder.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/files/disk.h"
#include "models/files/file_writer.h"
#include "models/spec/model_config.h"
#include "pipeline/checkpoint/directory/replaced_run.h"
#include "pipeline/checkpoint/directory/step_folders.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// Steps beyond the one just saved were given up by a run that went on from an earlier one: they
// stay until they are overtaken, and are none of `keep`.
std::vector<std::string> Prune(const std::string& directory, int64_t saved, int keep,
                               const std::vector<int64_t>& stays,
                               const std::function<void()>& next) {
  std::vector<int64_t> steps = CheckpointsIn(directory);
  steps.erase(std::upper_bound(steps.begin(), steps.end(), saved), steps.end());
  const std::vector<int64_t> all = steps;
  const size_t kept = std::min(steps.size(), static_cast<size_t>(keep));
  steps.resize(steps.size() - kept);
  for (const int64_t step : stays) {
    const auto after = std::upper_bound(all.begin(), all.end(), step);
    if (after != all.begin()) std::erase(steps, *std::prev(after));
  }
  std::vector<std::string> removed;
  for (const int64_t step : steps) {
    next();
    if (RemoveCheckpoint(directory, step))
      removed.push_back((fs::path(directory) / StepFolderName(step)).string());
  }
  return removed;
}

// Makes the folder of a file that lies in one of `folder`, "FOLDER/NAME".
absl::Status MakeFolderOf(const std::string& name, const fs::path& folder) {
  const fs::path inner = fs::path(name).parent_path();
  if (inner.empty() || disk::MakeFolder((folder / inner).string()) == 0 || errno == EEXIST) {
    return absl::OkStatus();
  }
  return FileError(errno, absl::StrCat("cannot create ", (folder / inner).string()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointFolder>> CheckpointFolder::Create(
    const std::string& directory) {
  if (absl::Status status = MakeOwnFolder(directory); !status.ok()) return status;
  ClearOwnFolder(directory);
  std::unique_ptr<CheckpointFolder> folder(new CheckpointFolder(directory, SomeNonce()));
  if (disk::MakeFolder(folder->path()) != 0) {
    return FileError(errno, absl::StrCat("cannot create ", folder->path()));
  }
  return folder;
}

CheckpointFolder::~CheckpointFolder() { ClearOwnFolder(directory_); }

absl::Status CheckpointFolder::WriteTexts(const RunState& state,
                                          std::map<std::string, FileRecord> files) const {
  const fs::path folder = path();
  std::map<std::string, std::string> texts;
  if (state.model_files != nullptr) texts = state.model_files->texts;
  if (!texts.contains(kConfigFile)) texts[kConfigFile] = FormatModelConfig(state.model);
  auto config = texts.extract(kConfigFile);
  config.key() = ConfigFileOf(files);
  texts.insert(std::move(config));
  for (const auto& [name, content] : texts) {
    if (absl::Status status = MakeFolderOf(name, folder); !status.ok()) return status;
    const absl::StatusOr<FileRecord> record = WriteTextFile((folder / name).string(), content);
    if (!record.ok()) return record.status();
    files[name] = *record;
  }
  const absl::StatusOr<std::string> text = FormatState(state, files);
  if (!text.ok()) return text.status();
  return WriteTextFile((folder / kStateFile).string(), *text).status();
}

absl::StatusOr<CommittedFolder> CheckpointFolder::Commit(const RunState& state,
                                                         std::map<std::string, FileRecord> files,
                                                         int keep,
                                                         const std::vector<int64_t>& stays,
                                                         const std::function<void()>& next) {
  assert(keep >= 1 && state.step >= 0);
  // The link before the renames, though it leads nowhere yet: all that can fail for want of room
  // comes before them.
  absl::Status status = CheckLatestLink(directory_);
  if (status.ok()) status = MakeNewLink(directory_, state.step);
  if (!status.ok()) return status;
  status = WriteTexts(state, std::move(files));
  next();
  if (status.ok()) status = SyncDirectory(path());
  if (status.ok()) status = MoveIntoPlace(path(), directory_, state.step);
  if (status.ok()) status = SyncDirectory(directory_);
  if (status.ok()) status = ReplaceLatestLink(directory_);
  if (!status.ok()) return status;
  // The new checkpoint is safe; one that cannot be removed is no reason to stop a run.
  next();
  CommittedFolder committed;
  committed.path = (fs::path(directory_) / StepFolderName(state.step)).string();
  // What was given up goes first, so that it is not among the newest ones that are kept.
  for (const std::vector<std::string>& removed :
       {RemoveReplaced(directory_, state.step), RemoveGivenUp(directory_, state.step, next),
        Prune(directory_, state.step, keep, stays, next)}) {
    committed.removed.insert(committed.removed.end(), removed.begin(), removed.end());
  }
  return committed;
}

}  // namespace sluice
