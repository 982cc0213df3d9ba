#ifndef SLUICE_TOOLS_TRAIN_SETTINGS_KEPT_SETTINGS_H_
#define SLUICE_TOOLS_TRAIN_SETTINGS_KEPT_SETTINGS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"

namespace sluice {

// How a run was started, beside its checkpoints: DIR/run.toml of --save DIR.
inline constexpr char kSettingsFile[] = "run.toml";
// The first line of every one that sluice has written.
inline constexpr char kSettingsMark[] =
    "# The flags of the run that saves here, by 'sluice train'.";

// InvalidArgument where `directory` has a run.toml that sluice did not write: it may be the work of
// a person, who would lose it.
absl::Status CheckSettingsFile(const std::string& directory);

// The run.toml of one run, in rank 0's process.
class KeptSettings {
 public:
  // Where `directory` is empty the run does not save.
  explicit KeptSettings(std::string directory) : directory_(std::move(directory)) {}

  // Whether the directory has a file that is not this run's.
  bool HasOlder() const;
  // Replaces the file as a whole by `text`, which begins with kSettingsMark; the second time and
  // later nothing happens, unless somebody has removed or renamed the directory. An error says what is lost, for a run goes on without it.
  absl::Status Keep(const std::string& text);

 private:
  const std::string directory_;
  bool kept_ = false;
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_SETTINGS_KEPT_SETTINGS_H_
