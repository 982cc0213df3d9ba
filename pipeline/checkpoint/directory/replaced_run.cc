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

Note ReadNote(const std::string& directory) {
  Note note;
  const absl::StatusOr<MappedFile> file = MappedFile::Open(OwnPath(directory, kReplacedFile));
  if (!file.ok()) return note;
  const std::string text(file->bytes().begin(), file->bytes().end());
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    const std::optional<int64_t> step = ParseStepFolder(words.back());
    if (step && words.size() == 2) note[*step] = words.front();
  }
  return note;
}

absl::Status WriteNote(const std::string& directory, const Note& note) {
  std::string text;
  for (const auto& [step, checksum] : note) {
    absl::StrAppend(&text, checksum, " ", StepFolderName(step), "\n");
  }
  return WriteTextFile(OwnPath(directory, kReplacedFile), text).status();
}

void DropNote(const std::string& directory) { disk::Remove(OwnPath(directory, kReplacedFile)); }

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

}  // namespace

std::string ChecksumOfLatest(const std::string& directory) {
  const std::optional<int64_t> latest = LatestStep(directory);
  return latest ? ChecksumOfState(directory, *latest) : "";
}

absl::Status NoteReplaced(const std::string& directory) {
  Note note;
  for (const int64_t step : CheckpointsIn(directory)) note[step] = ChecksumOfState(directory, step);
  return WriteNote(directory, note);
}

void RemoveReplaced(const std::string& directory, int64_t saved) {
  Note left = ReadNote(directory);
  left.erase(saved);
  for (const auto& [step, checksum] : left) {
    if (IsStill(directory, step, checksum)) RemoveCheckpoint(directory, step);
  }
  std::erase_if(left, [&directory](const auto& noted) {
    return !IsStill(directory, noted.first, noted.second);
  });
  if (left.empty()) return DropNote(directory);
  WriteNote(directory, left).IgnoreError();  // the note as it was does as well
}

void SettleReplaced(const std::string& directory, std::optional<int64_t> resumed) {
  const Note note = ReadNote(directory);
  const auto is_noted = [&](std::optional<int64_t> step) {
    const auto noted = step ? note.find(*step) : note.end();
    return noted != note.end() && IsStill(directory, *step, noted->second);
  };
  const std::optional<int64_t> latest = LatestStep(directory);
  if (!latest || is_noted(latest) || is_noted(resumed)) return DropNote(directory);
  RemoveReplaced(directory, *latest);
}

}  // namespace sluice
