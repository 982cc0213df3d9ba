#include "tools/train/settings/kept_settings.h"

#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "models/files/file_writer.h"
#include "models/files/is_there.h"
#include "models/files/positioned_file.h"
#include "tools/files.h"

namespace sluice {
namespace {

std::string PathIn(const std::string& directory) {
  return (std::filesystem::path(directory) / kSettingsFile).string();
}

absl::Status Write(const std::string& path, const std::string& text) {
  const absl::StatusOr<std::unique_ptr<FileWriter>> file = FileWriter::Create(path);
  absl::Status status = file.status();
  if (status.ok()) status = (*file)->Append(text);
  if (status.ok()) status = (*file)->Commit();
  return status;
}

}  // namespace

absl::Status CheckSettingsFile(const std::string& directory) {
  const std::string path = PathIn(directory);
  if (!IsThere(path)) return absl::OkStatus();
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMostJsonBytes);
  if (text.ok() && absl::StartsWith(*text, kSettingsMark)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is not one that sluice wrote, and this run needs its name for its own ",
                   "flags; move it away, or save to another directory"));
}

bool KeptSettings::HasOlder() const { return !kept_ && IsThere(PathIn(directory_)); }

absl::Status KeptSettings::Keep(const std::string& text) {
  if (directory_.empty() || (kept_ && IsThere(PathIn(directory_)))) return absl::OkStatus();
  kept_ = true;
  absl::Status status = Write(PathIn(directory_), text);
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), "; the run goes on, but ",
                                                  "--resume will need all of its flags"));
}

}  // namespace sluice
