#ifndef SLUICE_TOOLS_TRAIN_SETTINGS_SETTINGS_FILE_H_
#define SLUICE_TOOLS_TRAIN_SETTINGS_SETTINGS_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/train/settings/setting.h"

namespace sluice {

enum class SettingsSyntax { kToml, kYaml };

// YAML where the file's name ends in .yaml or .yml, TOML otherwise.
SettingsSyntax SyntaxOf(const std::string& path);

// Reads the text of a file of flags, in the order of its lines. InvalidArgument names `path`, the line and what
// is wrong: not of its syntax, a table, or a value that no flag has (a date, a list of lists, a YAML
// null or tag).
absl::StatusOr<std::vector<Setting>> ParseSettings(SettingsSyntax syntax, const std::string& text,
                                                   const std::string& path);

// The same of the file itself; InvalidArgument also where it cannot be read.
absl::StatusOr<std::vector<Setting>> ReadSettings(const std::string& path);

// The line that ReadSettings reads as `key` with these values, which are UTF-8; several are a list.
// In TOML those of a flag that is `numeric` are written as numbers, digit for digit, where TOML has
// such numbers; others only where they come back letter for letter.
std::string FormatSetting(SettingsSyntax syntax, absl::string_view key,
                          const std::vector<std::string>& values, bool numeric);
// The same for a flag without a value.
std::string FormatSetting(SettingsSyntax syntax, absl::string_view key, bool value);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_SETTINGS_SETTINGS_FILE_H_
