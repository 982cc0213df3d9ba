#ifndef SLUICE_TOOLS_TRAIN_SETTINGS_SETTINGS_FILE_H_
#define SLUICE_TOOLS_TRAIN_SETTINGS_SETTINGS_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// A flag as a settings file gives it: `steps = 100`, `freeze = ["a*", "b*"]`, `mirror = true`.
struct Setting {
  std::string key;                  // the flag without its dashes
  std::vector<std::string> values;  // as they would be typed; of true and false those words
  bool is_boolean = false;          // true or false, which only flags without a value take
  bool is_list = false;
  int line = 0;
};

// Reads a TOML file of flags, in the order of its lines. InvalidArgument names `path`, the line and
// what is wrong: no TOML, a table, or a value that no flag has (a date, a list of lists); also where
// the file cannot be read.
absl::StatusOr<std::vector<Setting>> ReadSettings(const std::string& path);

// "line 3 of run.toml", for messages.
std::string PlaceOf(const std::string& path, const Setting& setting);

// The line that ReadSettings reads as `key` with these values; several are a list. Those of a flag
// that is `numeric` are written as numbers, digit for digit, where TOML has such numbers; others only
// where they come back letter for letter.
std::string FormatSetting(absl::string_view key, const std::vector<std::string>& values,
                          bool numeric);
// The same for a flag without a value.
std::string FormatSetting(absl::string_view key, bool value);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_SETTINGS_SETTINGS_FILE_H_
