#include "tools/train/settings/settings_file.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "models/files/positioned_file.h"
#include "tools/files.h"
#include "tools/train/settings/toml_settings.h"
#include "tools/train/settings/yaml_settings.h"

namespace sluice {

SettingsSyntax SyntaxOf(const std::string& path) {
  const bool is_yaml = absl::EndsWith(path, ".yaml") || absl::EndsWith(path, ".yml");
  return is_yaml ? SettingsSyntax::kYaml : SettingsSyntax::kToml;
}

absl::StatusOr<std::vector<Setting>> ParseSettings(SettingsSyntax syntax, const std::string& text,
                                                   const std::string& path) {
  switch (syntax) {
    case SettingsSyntax::kToml:
      return ParseTomlSettings(text, path);
    case SettingsSyntax::kYaml:
      break;
  }
  return ParseYamlSettings(text, path);
}

absl::StatusOr<std::vector<Setting>> ReadSettings(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMostJsonBytes);
  if (!text.ok()) return text.status();
  return ParseSettings(SyntaxOf(path), *text, path);
}

std::string FormatSetting(SettingsSyntax syntax, absl::string_view key,
                          const std::vector<std::string>& values, bool numeric) {
  switch (syntax) {
    case SettingsSyntax::kToml:
      return FormatTomlSetting(key, values, numeric);
    case SettingsSyntax::kYaml:
      break;
  }
  return FormatYamlSetting(key, values);
}

std::string FormatSetting(SettingsSyntax syntax, absl::string_view key, bool value) {
  return absl::StrCat(key, syntax == SettingsSyntax::kYaml ? ": " : " = ", value ? "true" : "false",
                      "\n");
}

}  // namespace sluice
