#ifndef SLUICE_TOOLS_TRAIN_SETTINGS_SETTING_H_
#define SLUICE_TOOLS_TRAIN_SETTINGS_SETTING_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice {

// A flag as a settings file gives it: `steps = 100`, `freeze = ["a*", "b*"]`, `mirror = true`.
struct Setting {
  std::string key;                  // the flag without its dashes
  std::vector<std::string> values;  // as they would be typed; of true and false those words
  bool is_boolean = false;          // true or false, which only flags without a value take
  bool is_list = false;
  int line = 0;
};

// "line 3 of run.toml", for messages.
inline std::string PlaceOf(const std::string& path, const Setting& setting) {
  return absl::StrCat("line ", setting.line, " of ", path);
}

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_SETTINGS_SETTING_H_
