// The readers of `--config`.
#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "promises.h"
#include "readers.h"
#include "tools/train/settings/settings_file.h"

namespace sluice {
namespace {

// As the names of flags are.
bool IsFlag(const std::string& key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char each) {
    return absl::ascii_isalnum(each) || each == '-';
  });
}

void RequireItComesBack(SettingsSyntax syntax, const Setting& setting) {
  if (!IsFlag(setting.key)) return;
  const std::string line =
      setting.is_boolean ? FormatSetting(syntax, setting.key, setting.values.front() == "true")
                         : FormatSetting(syntax, setting.key, setting.values, /*numeric=*/false);
  const auto again = ParseSettings(syntax, line, kFuzzedFile);
  Require(again.ok() && again->size() == 1, "the line of a flag is one");
  const Setting& same = again->front();
  Require(same.key == setting.key && same.values == setting.values &&
              same.is_boolean == setting.is_boolean,
          "a flag comes back from its own line");
}

}  // namespace

void TrySettings(absl::string_view text) {
  for (const SettingsSyntax syntax : {SettingsSyntax::kToml, SettingsSyntax::kYaml}) {
    const auto settings = ParseSettings(syntax, std::string(text), kFuzzedFile);
    if (!settings.ok()) {
      Require(absl::IsInvalidArgument(settings.status()), "bad input is InvalidArgument");
      Require(absl::StrContains(settings.status().message(), kFuzzedFile),
              "an error names its file");
      continue;
    }
    int line = 0;
    for (const Setting& setting : *settings) {
      Require(setting.line >= line, "flags stand in the order of their lines");
      line = setting.line;
      RequireItComesBack(syntax, setting);
    }
  }
}

}  // namespace sluice
