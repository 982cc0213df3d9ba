#include "pipeline/checkpoint/files/where_to_go_on.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/files/is_there.h"
#include "pipeline/checkpoint/files/checkpoint.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"

namespace sluice {

namespace fs = std::filesystem;

absl::StatusOr<std::string> WhereToGoOn(const std::string& path) {
  const absl::StatusOr<bool> has = HasCheckpoint(path);
  if (!has.ok()) return has.status();
  if (*has) return path;
  fs::path given = path;
  if (!given.has_filename()) given = given.parent_path();  // it ended with a slash
  const std::optional<int64_t> step = ParseStepFolder(given.filename().string());
  if (!step) return "";
  const std::string directory = given.has_parent_path() ? given.parent_path().string() : ".";
  std::vector<int64_t> steps = StepsIn(directory);
  std::erase_if(steps, [&directory](int64_t there) {
    return !LeadsToFile(fs::path(directory) / StepFolderName(there) / kStateFile);
  });
  if (steps.empty()) return "";
  if (steps.back() > *step) return directory;
  return absl::NotFoundError(
      absl::StrCat("no checkpoint: there is no ", path, ", and the newest in ", directory, " is ",
                   StepFolderName(steps.back()), "; name ", directory, " to go on from that"));
}

}  // namespace sluice
