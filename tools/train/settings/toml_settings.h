#ifndef SLUICE_TOOLS_TRAIN_SETTINGS_TOML_SETTINGS_H_
#define SLUICE_TOOLS_TRAIN_SETTINGS_TOML_SETTINGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/train/settings/setting.h"

namespace sluice {

// What ParseSettings reads of the TOML `text` of the file `path`.
absl::StatusOr<std::vector<Setting>> ParseTomlSettings(const std::string& text,
                                                       const std::string& path);

// What FormatSetting writes.
std::string FormatTomlSetting(absl::string_view key, const std::vector<std::string>& values,
                              bool numeric);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_SETTINGS_TOML_SETTINGS_H_
