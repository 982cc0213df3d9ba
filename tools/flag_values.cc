#include "tools/flag_values.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

std::string RefuseEmpty(const std::string& text) {
  return text.empty() ? "the value is empty; give one, or leave the flag out" : "";
}

// Reads `text` as CLI11 does, in base 8, 10 or 16; Number is the widest that it then converts.
template <typename Number>
std::string RefuseNoNumber(const std::string& text, Number (*read)(const char*, char**, int)) {
  char* end = nullptr;
  errno = 0;
  const Number number = read(text.c_str(), &end, 0);
  if (end != text.c_str() + text.size()) return absl::StrCat(text, " is not a whole number");
  if (errno != ERANGE) return "";
  return number <= 0 ? absl::StrCat(text, " is too small; expected at least ", number)
                     : absl::StrCat(text, " is too large; expected at most ", number);
}

std::string RefuseNoInteger(const std::string& text) {
  return RefuseNoNumber<long long>(text, std::strtoll);
}
std::string RefuseNoUnsigned(const std::string& text) {
  return RefuseNoNumber<unsigned long long>(text, std::strtoull);
}

// As a check, which leaves the value as it is, but before all others.
void CheckFirst(CLI::Option* option, std::string (*refuse)(const std::string&)) {
  option->transform(CLI::Validator([refuse](std::string& text) { return refuse(text); }, ""));
}

bool MayBeEmpty(const CLI::Option& option) {
  return option.check_name("--prompt") || option.check_name("--system") ||
         option.check_name("--title");
}

}  // namespace

void CheckFlagValues(CLI::App& app) {
  for (CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    if (option->get_type_size() == 0) continue;  // takes no value
    const std::string type = option->get_type_name();
    if (absl::StartsWith(type, "INT")) CheckFirst(option, RefuseNoInteger);
    if (absl::StartsWith(type, "UINT")) CheckFirst(option, RefuseNoUnsigned);
    if (!MayBeEmpty(*option)) CheckFirst(option, RefuseEmpty);
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    CheckFlagValues(*command);
  }
}

absl::StatusOr<std::vector<absl::string_view>> SplitList(absl::string_view flag,
                                                         absl::string_view text,
                                                         absl::string_view example) {
  std::vector<absl::string_view> items = absl::StrSplit(text, ',');
  if (!absl::c_linear_search(items, "")) return items;
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " '", text, "': an item is empty; expected a list such as ", example));
}

}  // namespace sluice
