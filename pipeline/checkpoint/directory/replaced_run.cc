#include "pipeline/checkpoint/directory/replaced_run.h"

#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "models/files/disk.h"
#include "models/files/file_writer.h"
#include "models/files/mapped_file.h"
#include "pipeline/checkpoint/directory/own_folder.h"
#include "pipeline/checkpoint/directory/step_folders.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// By step, the checksum of the whole of state.json. A line each in the file: "CHECKSUM step-N".
using Note = std::map<int64_t, std::string>;

std::string ChecksumOfState(const std::string& directory, int64_t step) {
  const fs::path path = fs::path(directory) / StepFolderName(step) / kStateFile;
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path.string());
  return file.ok() ? Checksum(file->bytes().data(), file->bytes().size()) : "";
}

// `name`: of the note's file.
Note ReadNote(const std::string& directory, const char* name) {
  Note note;
  const absl::StatusOr<MappedFile> file = MappedFile::Open(OwnPath(directory, name));
  if (!file.ok()) return note;
  const std::string text(file->bytes().begin(), file->bytes().end());
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    const std::optional<int64_t> step = ParseStepFolder(words.back());
    if (step && words.size() == 2) note[*step] = words.front();
  }
  return note;
}

void DropNote(const std::string& directory, const char* name) {
  disk::Remove(OwnPath(directory, name));
}

// There is no file for an empty note.
absl::Status WriteNote(const std::string& directory, const char* name, const Note& note) {
  if (note.empty()) {
    DropNote(directory, name);
    return absl::OkStatus();
  }
  std::string text;
  for (const auto& [step, checksum] : note) {
    absl::StrAppend(&text, checksum, " ", StepFolderName(step), "\n");
  }
  return WriteTextFile(OwnPath(directory, name), text).status();
}

bool IsStill(const std::string& directory, int64_t step, const std::string& checksum) {
  return IsCheckpoint((fs::path(directory) / StepFolderName(step)).string()) &&
         ChecksumOfState(directory, step) == checksum;
}

// The step that `latest` leads to, where that is a checkpoint.
std::optional<int64_t> LatestStep(const std::string& directory) {
  std::error_code ignored;
  const fs::path target = fs::read_symlink(fs::path(directory) / kLatestLink, ignored);
  const std::optional<int64_t> step = ParseStepFolder(target.string());
  if (!step || !IsCheckpoint((fs::path(directory) / target).string())) return std::nullopt;
  return step;
}

// Removes the noted checkpoints, and leaves in `note` those that cannot be. The paths of the rest.
std::vector<std::string> RemoveNoted(const std::string& directory, Note* note,
                                     const std::function<void()>& next) {
  std::vector<std::string> removed;
  for (const auto& [step, checksum] : *note) {
    if (!IsStill(directory, step, checksum)) continue;
    next();
    if (RemoveCheckpoint(directory, step))
      removed.push_back((fs::path(directory) / StepFolderName(step)).string());
  }
  std::erase_if(*note, [&directory](const auto& noted) {
    return !IsStill(directory, noted.first, noted.second);
  });
  return removed;
}

}  // namespace

std::string ChecksumOfNewest(const std::string& directory) {
  if (const std::optional<int64_t> latest = LatestStep(directory))
    return ChecksumOfState(directory, *latest);
  const std::vector<int64_t> steps = CheckpointsIn(directory);
  return steps.empty() ? "" : ChecksumOfState(directory, steps.back());
}

absl::Status NoteReplaced(const std::string& directory) {
  Note note;
  for (const int64_t step : CheckpointsIn(directory)) note[step] = ChecksumOfState(directory, step);
  return WriteNote(directory, kReplacedFile, note);
}

std::vector<std::string> RemoveReplaced(const std::string& directory, int64_t saved) {
  Note left = ReadNote(directory, kReplacedFile);
  left.erase(saved);
  std::vector<std::string> removed = RemoveNoted(directory, &left, [] {});
  WriteNote(directory, kReplacedFile, left).IgnoreError();  // the note as it was does as well
  return removed;
}

void SettleReplaced(const std::string& directory, std::optional<int64_t> resumed) {
  const Note note = ReadNote(directory, kReplacedFile);
  const auto is_noted = [&](std::optional<int64_t> step) {
    const auto noted = step ? note.find(*step) : note.end();
    return noted != note.end() && IsStill(directory, *step, noted->second);
  };
  const std::optional<int64_t> latest = LatestStep(directory);
  if (!latest || is_noted(latest) || is_noted(resumed)) return DropNote(directory, kReplacedFile);
  RemoveReplaced(directory, *latest);
}

absl::Status NoteGivenUp(const std::string& directory, std::optional<int64_t> resumed) {
  Note note;
  if (resumed) {
    for (const int64_t step : CheckpointsIn(directory)) {
      if (step > *resumed) note[step] = ChecksumOfState(directory, step);
    }
  }
  return WriteNote(directory, kGivenUpFile, note);
}

std::vector<std::string> RemoveGivenUp(const std::string& directory, int64_t saved,
                                       const std::function<void()>& next) {
  Note left = ReadNote(directory, kGivenUpFile);
  if (left.empty()) return {};
  Note overtaken(left.begin(), left.lower_bound(saved));
  left.erase(left.begin(), left.upper_bound(saved));
  std::vector<std::string> removed = RemoveNoted(directory, &overtaken, next);
  left.merge(overtaken);
  // A note that still has `saved` would be one of the run's own checkpoint.
  if (!WriteNote(directory, kGivenUpFile, left).ok()) DropNote(directory, kGivenUpFile);
  return removed;
}

}  // namespace sluice
