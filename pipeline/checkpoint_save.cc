#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "models/data/file_writer.h"
#include "pipeline/checkpoint.h"
#include "pipeline/checkpoint_files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// Names in DIR that live only during a save; a crash may leave them, the next save clears them
// away.
constexpr char kSaving[] = ".saving";
constexpr char kRemoving[] = ".removing";
constexpr char kNewLink[] = ".latest";

void Remove(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

// Never leaves half a checkpoint under its name.
void RemoveStep(const fs::path& directory, int64_t step) {
  std::error_code error;
  fs::rename(directory / StepFolderName(step), directory / kRemoving, error);
  Remove(directory / kRemoving);
}

// Writes the files of a checkpoint into one folder and keeps their sizes and checksums.
class FolderWriter {
 public:
  explicit FolderWriter(const fs::path& folder) : folder_(folder) {}

  const std::map<std::string, FileRecord>& files() const { return files_; }

  absl::Status Text(const char* name, const std::string& text) {
    return Write(name, [&](FileWriter& file) { return file.Append(text); });
  }
  absl::Status Tensors(const char* name, const std::vector<TensorSource>& tensors) {
    return Write(name, [&](FileWriter& file) {
      return AppendSafetensors(tensors, {{"format", "pt"}}, file);  // transformers asks for it
    });
  }

 private:
  template <typename Fill>
  absl::Status Write(const char* name, Fill fill) {
    const absl::StatusOr<std::unique_ptr<FileWriter>> file =
        FileWriter::Create((folder_ / name).string());
    if (!file.ok()) return file.status();
    absl::Status status = fill(**file);
    if (!status.ok()) return status;
    files_[name] = {(*file)->size(), (*file)->checksum()};
    return (*file)->Commit();
  }

  fs::path folder_;
  std::map<std::string, FileRecord> files_;
};

absl::Status WriteFolder(const fs::path& folder, const RunState& state,
                         const std::vector<TensorSource>& weights,
                         const std::vector<TensorSource>& optimizer) {
  if (mkdir(folder.c_str(), 0777) != 0) {
    return FileError(errno, absl::StrCat("cannot create ", folder.string()));
  }
  FolderWriter writer(folder);
  absl::Status status = writer.Tensors(kWeightsFile, weights);
  if (status.ok()) status = writer.Text(kConfigFile, FormatModelConfig(state.model));
  if (status.ok()) status = writer.Tensors(kOptimizerFile, optimizer);
  if (!status.ok()) return status;
  const absl::StatusOr<std::string> text = FormatState(state, writer.files());
  return text.ok() ? writer.Text(kStateFile, *text) : text.status();
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

}  // namespace

absl::StatusOr<std::string> SaveCheckpoint(const std::string& directory, const RunState& state,
                                           const std::vector<TensorSource>& weights,
                                           const std::vector<TensorSource>& optimizer, int keep) {
  assert(keep >= 1 && state.step >= 0);
  const fs::path dir = directory;
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return FileError(error.value(), absl::StrCat("cannot create ", directory));

  const fs::path saving = dir / kSaving;
  const fs::path new_link = dir / kNewLink;
  const auto clear = [&] {
    for (const char* name : {kSaving, kRemoving, kNewLink}) Remove(dir / name);
  };
  clear();
  const absl::Cleanup clear_at_end = clear;

  // The link first, though it leads nowhere yet: all that can fail for want of room comes before
  // the renames.
  const std::string name = StepFolderName(state.step);
  if (symlink(name.c_str(), new_link.c_str()) != 0) {
    return FileError(errno, absl::StrCat("cannot create the link ", new_link.string()));
  }
  absl::Status status = WriteFolder(saving, state, weights, optimizer);
  if (status.ok()) status = MoveIntoPlace(saving, dir / name, state.step);
  if (status.ok()) status = SyncDirectory(directory);
  if (!status.ok()) return status;
  if (std::rename(new_link.c_str(), (dir / kLatestLink).c_str()) != 0) {
    return FileError(errno, absl::StrCat("cannot replace the link ", directory, "/", kLatestLink));
  }
  status = SyncDirectory(directory);
  if (!status.ok()) return status;
  // The new checkpoint is safe; one that cannot be removed is no reason to stop a run.
  Prune(dir, state.step, keep);
  return (dir / name).string();
}

}  // namespace sluice
