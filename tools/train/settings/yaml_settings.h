#ifndef SLUICE_TOOLS_TRAIN_SETTINGS_YAML_SETTINGS_H_
#define SLUICE_TOOLS_TRAIN_SETTINGS_YAML_SETTINGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/train/settings/setting.h"

namespace sluice {

// What ParseSettings reads of the YAML `text` of the file `path`: one document, a mapping. Plain
// true, yes and on, and their opposites, are booleans, as YAML 1.1 and so PyYAML have it; every other
// scalar is the text that is written there.
absl::StatusOr<std::vector<Setting>> ParseYamlSettings(const std::string& text,
                                                       const std::string& path);

// What FormatSetting writes.
std::string FormatYamlSetting(absl::string_view key, const std::vector<std::string>& values);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_SETTINGS_YAML_SETTINGS_H_
