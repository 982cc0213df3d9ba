#include "tools/train/settings/toml_settings.h"

#include <fmt/core.h>
#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {
namespace {

// A value of TOML as it would be typed; nothing where no flag takes such a value.
std::optional<std::string> Typed(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return absl::StrCat(number->get());
  // The fewest digits that mean this number.
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* boolean = node.as_boolean()) return boolean->get() ? "true" : "false";
  return std::nullopt;
}

// False where no flag takes such a value.
bool TakeValue(const toml::node& node, Setting* setting) {
  setting->is_boolean = node.is_boolean();
  const toml::array* list = node.as_array();
  setting->is_list = list != nullptr;
  if (list == nullptr) {
    std::optional<std::string> value = Typed(node);
    if (value) setting->values.push_back(*std::move(value));
    return !setting->values.empty();
  }
  for (const toml::node& item : *list) {
    std::optional<std::string> value = Typed(item);
    if (!value) return false;
    setting->values.push_back(*std::move(value));
  }
  return true;
}

absl::StatusOr<toml::table> Parse(const std::string& text, const std::string& path) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", error.source().begin.line, " of ", path,
                     " is not TOML: ", std::string(error.description())));
  }
}

std::string Quoted(const std::string& text) {
  std::ostringstream out;
  out << toml::toml_formatter(toml::value<std::string>(text), toml::format_flags::none);
  return out.str();
}

// Whether TOML reads `text` as a number and nothing else; of a number that is `same`, gives it back
// letter for letter.
bool IsTomlNumber(const std::string& text, bool same) {
  try {
    const toml::table table = toml::parse("number = " + text);
    const toml::node* node = table.get("number");
    if (table.size() != 1 || node == nullptr || !node->is_number()) return false;
    return !same || Typed(*node) == text;
  } catch (const toml::parse_error&) {
    return false;
  }
}

// The text of a flag that is no number may be one all the same: --stages 4, but also a file's name.
std::string FormatValue(const std::string& text, bool numeric) {
  return IsTomlNumber(text, /*same=*/!numeric) ? text : Quoted(text);
}

}  // namespace

absl::StatusOr<std::vector<Setting>> ParseTomlSettings(const std::string& text,
                                                       const std::string& path) {
  const absl::StatusOr<toml::table> table = Parse(text, path);
  if (!table.ok()) return table.status();
  std::vector<Setting> settings;
  for (const auto& [key, node] : *table) {
    Setting setting;
    setting.key = std::string(key.str());
    setting.line = static_cast<int>(node.source().begin.line);
    if (!TakeValue(node, &setting)) {
      const char* what = node.is_table() ? " is a table" : " has a value that no flag takes";
      return absl::InvalidArgumentError(
          absl::StrCat(PlaceOf(path, setting), ": '", setting.key, "'", what,
                       "; expected flag = a text in quotes, a number, true, false, or a list of "
                       "texts or numbers"));
    }
    settings.push_back(std::move(setting));
  }
  std::sort(settings.begin(), settings.end(),
            [](const Setting& a, const Setting& b) { return a.line < b.line; });
  return settings;
}

std::string FormatTomlSetting(absl::string_view key, const std::vector<std::string>& values,
                              bool numeric) {
  if (values.size() == 1) {
    return absl::StrCat(key, " = ", FormatValue(values.front(), numeric), "\n");
  }
  const auto append = [numeric](std::string* out, const std::string& value) {
    out->append(FormatValue(value, numeric));
  };
  return absl::StrCat(key, " = [", absl::StrJoin(values, ", ", append), "]\n");
}

}  // namespace sluice
