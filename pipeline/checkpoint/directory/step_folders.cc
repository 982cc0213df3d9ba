#include "pipeline/checkpoint/directory/step_folders.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "models/files/disk.h"
#include "models/files/file_writer.h"
#include "models/files/is_there.h"
#include "models/files/mapped_file.h"
#include "pipeline/checkpoint/directory/own_folder.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

absl::Status CannotMove(const fs::path& from, const fs::path& to) {
  return FileError(errno, absl::StrCat("cannot rename ", from.string(), " to ", to.string()));
}

// For a file system that can neither exchange two names nor rename only to one that is free. A
// folder that was there stays aside, since a crash may still undo the renames.
absl::Status MoveInTwoSteps(const fs::path& from, const fs::path& to, const fs::path& aside) {
  const bool replaces = IsThere(to);
  if (replaces && disk::Rename(to.string(), aside.string()) != 0) return CannotMove(to, aside);
  if (disk::Rename(from.string(), to.string()) == 0) return absl::OkStatus();
  absl::Status status = CannotMove(from, to);
  if (replaces) disk::Rename(aside.string(), to.string());
  return status;
}

}  // namespace

bool IsCheckpoint(const std::string& folder) {
  std::error_code ignored;
  if (!fs::is_directory(fs::symlink_status(folder, ignored))) return false;
  const absl::StatusOr<MappedFile> file =
      MappedFile::Open((fs::path(folder) / kStateFile).string());
  if (!file.ok()) return false;
  const auto* text = reinterpret_cast<const char*>(file->bytes().data());
  return BeginsAsState({text, file->bytes().size()});
}

std::vector<int64_t> CheckpointsIn(const std::string& directory) {
  std::vector<int64_t> steps = StepsIn(directory);
  std::erase_if(steps, [&directory](int64_t step) {
    return !IsCheckpoint((fs::path(directory) / StepFolderName(step)).string());
  });
  return steps;
}

absl::Status MoveIntoPlace(const std::string& from, const std::string& directory, int64_t step) {
  const fs::path to = fs::path(directory) / StepFolderName(step);
  if (disk::RenameToFree(from, to.string()) == 0) {
    return absl::OkStatus();
  }
  if (IsThere(to) && !IsCheckpoint(to.string())) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot save ", to.string(),
                     ": what is there is not a checkpoint that sluice wrote; move it away"));
  }
  if (disk::Exchange(from, to.string()) == 0) {
    return absl::OkStatus();
  }
  return MoveInTwoSteps(from, to, RemovingFolder(directory, SomeNonce()));
}

absl::Status CheckLatestLink(const std::string& directory) {
  const fs::path link = fs::path(directory) / kLatestLink;
  std::error_code ignored;
  if (!IsThere(link) || ParseStepFolder(fs::read_symlink(link, ignored).string())) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(link.string(), " is not a link that sluice made; move it away"));
}

absl::Status MakeNewLink(const std::string& directory, int64_t step) {
  const std::string new_link = OwnPath(directory, kNewLink);
  if (disk::Symlink(StepFolderName(step), new_link) == 0) return absl::OkStatus();
  return FileError(errno, absl::StrCat("cannot create the link ", new_link));
}

absl::Status ReplaceLatestLink(const std::string& directory) {
  const std::string new_link = OwnPath(directory, kNewLink);
  if (disk::Rename(new_link, (fs::path(directory) / kLatestLink).string()) != 0)
    return FileError(errno, absl::StrCat("cannot replace the link ", directory, "/", kLatestLink));
  return SyncDirectory(directory);
}

absl::Status PointLatestLink(const std::string& directory, int64_t step) {
  disk::Remove(OwnPath(directory, kNewLink));  // that an earlier one may have left
  absl::Status status = MakeNewLink(directory, step);
  return status.ok() ? ReplaceLatestLink(directory) : status;
}

absl::Status RemoveLatestLink(const std::string& directory) {
  const std::string link = (fs::path(directory) / kLatestLink).string();
  if (!IsThere(link)) return absl::OkStatus();
  if (disk::Remove(link) != 0)
    return FileError(errno, absl::StrCat("cannot remove the link ", link));
  return SyncDirectory(directory);
}

bool RemoveCheckpoint(const std::string& directory, int64_t step) {
  const std::string aside = RemovingFolder(directory, SomeNonce());
  if (disk::Rename((fs::path(directory) / StepFolderName(step)).string(), aside) != 0) return false;
  // A crash may otherwise undo the rename, and not the removal of what is in the folder.
  if (SyncDirectory(directory).ok()) disk::RemoveAll(aside);
  return true;
}

}  // namespace sluice
