#include "pipeline/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/data/file_writer.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// Names in DIR that live only during a save; a crash may leave them, the next save clears them
// away. The first one goes on with a nonce.
constexpr char kSaving[] = ".saving";
constexpr char kRemoving[] = ".removing";
constexpr char kNewLink[] = ".latest";
constexpr int kNonceBits = 48;

void Remove(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

void ClearAway(const fs::path& directory) {
  std::vector<fs::path> leftovers = {directory / kRemoving, directory / kNewLink};
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    if (absl::StartsWith(entry.path().filename().string(), kSaving))
      leftovers.push_back(entry.path());
  }
  for (const fs::path& leftover : leftovers) Remove(leftover);
}

uint64_t SomeNonce() {
  std::random_device random;
  return ((uint64_t{random()} << 32) | random()) >> (64 - kNonceBits);
}

// Never leaves half a checkpoint under its name.
void RemoveStep(const fs::path& directory, int64_t step) {
  std::error_code error;
  fs::rename(directory / StepFolderName(step), directory / kRemoving, error);
  Remove(directory / kRemoving);
}

// Puts `from` where `to` is; a folder that is there already ends at `from`.
absl::Status MoveIntoPlace(const fs::path& from, const fs::path& to, int64_t step) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
    return absl::OkStatus();
  }
  if (errno == EEXIST &&
      renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    return absl::OkStatus();
  }
  // A file system that cannot do these two at once.
  RemoveStep(to.parent_path(), step);
  if (std::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return FileError(errno, absl::StrCat("cannot rename ", from.string(), " to ", to.string()));
}

// Steps beyond the one just saved are of a run that was given up; they go once they are overtaken.
void Prune(const fs::path& directory, int64_t saved, int keep) {
  std::vector<int64_t> steps = StepsIn(directory.string());
  steps.erase(std::upper_bound(steps.begin(), steps.end(), saved), steps.end());
  const size_t kept = std::min(steps.size(), static_cast<size_t>(keep));
  steps.resize(steps.size() - kept);
  for (const int64_t step : steps) RemoveStep(directory, step);
}

absl::StatusOr<FileRecord> WriteText(const fs::path& path, const std::string& text) {
  const absl::StatusOr<std::unique_ptr<FileWriter>> file = FileWriter::Create(path.string());
  if (!file.ok()) return file.status();
  if (absl::Status status = (*file)->Append(text); !status.ok()) return status;
  FileRecord record{(*file)->size(), (*file)->checksum()};
  if (absl::Status status = (*file)->Commit(); !status.ok()) return status;
  return record;
}

}  // namespace

std::string SavingFolder(const std::string& directory, uint64_t nonce) {
  return (fs::path(directory) / absl::StrFormat("%s-%012x", kSaving, nonce)).string();
}

absl::StatusOr<std::unique_ptr<CheckpointFolder>> CheckpointFolder::Create(
    const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return FileError(error.value(), absl::StrCat("cannot create ", directory));
  ClearAway(directory);
  std::unique_ptr<CheckpointFolder> folder(new CheckpointFolder(directory, SomeNonce()));
  if (mkdir(folder->path().c_str(), 0777) != 0) {
    return FileError(errno, absl::StrCat("cannot create ", folder->path()));
  }
  return folder;
}

CheckpointFolder::~CheckpointFolder() { ClearAway(directory_); }

absl::Status CheckpointFolder::WriteTexts(const RunState& state,
                                          std::map<std::string, FileRecord> files) const {
  const fs::path folder = path();
  const absl::StatusOr<FileRecord> config =
      WriteText(folder / kConfigFile, FormatModelConfig(state.model));
  if (!config.ok()) return config.status();
  files[kConfigFile] = *config;
  const absl::StatusOr<std::string> text = FormatState(state, files);
  if (!text.ok()) return text.status();
  return WriteText(folder / kStateFile, *text).status();
}

absl::StatusOr<std::string> CheckpointFolder::Commit(const RunState& state,
                                                     std::map<std::string, FileRecord> files,
                                                     int keep) {
  assert(keep >= 1 && state.step >= 0);
  const fs::path dir = directory_;
  // The link before the renames, though it leads nowhere yet: all that can fail for want of room
  // comes before them.
  const fs::path new_link = dir / kNewLink;
  const std::string name = StepFolderName(state.step);
  if (symlink(name.c_str(), new_link.c_str()) != 0) {
    return FileError(errno, absl::StrCat("cannot create the link ", new_link.string()));
  }
  absl::Status status = WriteTexts(state, std::move(files));
  if (status.ok()) status = SyncDirectory(path());
  if (status.ok()) status = MoveIntoPlace(path(), dir / name, state.step);
  if (status.ok()) status = SyncDirectory(directory_);
  if (!status.ok()) return status;
  if (std::rename(new_link.c_str(), (dir / kLatestLink).c_str()) != 0) {
    return FileError(errno, absl::StrCat("cannot replace the link ", directory_, "/", kLatestLink));
  }
  status = SyncDirectory(directory_);
  if (!status.ok()) return status;
  // The new checkpoint is safe; one that cannot be removed is no reason to stop a run.
  Prune(dir, state.step, keep);
  return (dir / name).string();
}

}  // namespace sluice
