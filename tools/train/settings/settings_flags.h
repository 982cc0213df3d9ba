#ifndef SLUICE_TOOLS_TRAIN_SETTINGS_SETTINGS_FLAGS_H_
#define SLUICE_TOOLS_TRAIN_SETTINGS_SETTINGS_FLAGS_H_

#include <set>
#include <string>

#include "tools/train/settings/settings_file.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sluice {

// Adds --config FILE, which gives the flags of `command` that are not typed; before all other flags,
// since what it gives is checked as if it had been typed. An unknown key, or a value that its flag
// refuses, is an error of usage that names the file, the line and the flag.
void AddConfigFlag(CLI::App& command);

// Lets --resume and --resume-or-start of `sluice train` do the same with the run.toml (kept_settings.h)
// of a directory of checkpoints, where it has one. A run that goes on from a checkpoint takes its
// first weights and its hyper-parameters from there instead. It goes on saving to the directory,
// unless it was a single checkpoint in it that was named.
void TakeSettingsOfResumedRuns(CLI::App& command);

// The text of run.toml for a run that `command` has just read: its flags, wherever they came from,
// but for those of this one process or start (--rank, --resume, --json, ...), and of a run that is
// resumed those that its checkpoint says instead, as they were. Paths are absolute.
std::string SettingsText(const CLI::App& command);

// The names, without dashes, of the flags that `command` was given for this start: what was typed,
// and what a --config says that names the plan, too. Not those that a run is resumed with.
std::set<std::string> GivenFlags(const CLI::App& command);

// The line of a settings file that gives `option`, which has a value, the same value.
std::string SettingLine(const CLI::Option& option, SettingsSyntax syntax);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_SETTINGS_SETTINGS_FLAGS_H_
