#include "tools/flag_values.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

// No word of a command line has this character within it.
constexpr char kMark = '\0';

std::string RemoveMark(std::string& text) {
  text = WithoutMarks(std::move(text));
  return "";
}

std::string RefuseEmpty(std::string& text) {
  return text.empty() ? "the value is empty; give one, or leave the flag out" : "";
}

// Leaves CLI11, which reads what begins with a zero in base 8 or 16, a number without one.
void DropLeadingZeros(std::string& text) {
  const size_t zeros = text.find('0');
  if (zeros == text.npos || text.find_first_of("123456789") < zeros) return;
  const size_t others = std::min(text.find_first_not_of('0', zeros), text.size() - 1);
  text.erase(zeros, others - zeros);
}

// Number is the widest that CLI11 converts `text` to.
template <typename Number>
std::string RefuseNoNumber(std::string& text, Number (*read)(const char*, char**, int)) {
  constexpr int kDecimal = 10;
  char* end = nullptr;
  errno = 0;
  const Number number = read(text.c_str(), &end, kDecimal);
  if (end != text.c_str() + text.size()) return absl::StrCat(text, " is not a whole number");
  if (errno != ERANGE) {
    DropLeadingZeros(text);
    return "";
  }
  return number <= 0 ? absl::StrCat(text, " is too small; expected at least ", number)
                     : absl::StrCat(text, " is too large; expected at most ", number);
}

std::string RefuseNoInteger(std::string& text) {
  return RefuseNoNumber<long long>(text, std::strtoll);
}
std::string RefuseNoUnsigned(std::string& text) {
  return RefuseNoNumber<unsigned long long>(text, std::strtoull);
}
std::string RefuseHexadecimal(std::string& text) {
  return text.find_first_of("xX") != text.npos ? absl::StrCat(text, " is not a decimal number")
                                               : "";
}

// Before all other checks.
void CheckFirst(CLI::Option* option, std::string (*refuse)(std::string&)) {
  option->transform(CLI::Validator(refuse, ""));
}

bool MayBeEmpty(const CLI::Option& option) {
  return option.check_name("--prompt") || option.check_name("--system") ||
         option.check_name("--title");
}

}  // namespace

std::vector<std::string> MarkedWords(int argc, const char* const* argv) {
  std::vector<std::string> words;
  for (int i = argc - 1; i > 0; --i) {
    words.emplace_back(argv[i]);
    if (absl::EndsWith(words.back(), "]")) words.back().push_back(kMark);
  }
  return words;
}

std::string WithoutMarks(std::string text) {
  std::erase(text, kMark);
  return text;
}

void CheckFlagValues(CLI::App& app) {
  for (CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    if (option->get_type_size() == 0) continue;  // takes no value
    const std::string type = option->get_type_name();
    if (absl::StartsWith(type, "INT")) CheckFirst(option, RefuseNoInteger);
    if (absl::StartsWith(type, "UINT")) CheckFirst(option, RefuseNoUnsigned);
    if (absl::StartsWith(type, "FLOAT")) CheckFirst(option, RefuseHexadecimal);
    if (!MayBeEmpty(*option)) CheckFirst(option, RefuseEmpty);
    CheckFirst(option, RemoveMark);
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    CheckFlagValues(*command);
  }
}

CLI::Option* CheckAttention(CLI::Option* option) {
  const auto name_sluice = [](std::string& value) {
    if (value == "own") value = "sluice";
    return std::string();
  };
  return option->check(CLI::IsMember({"sluice", "cudnn"}))
      ->transform(CLI::Validator(name_sluice, ""));
}

absl::Status CheckAtLeastOne(const char* flag, const std::optional<int>& value) {
  if (!value.has_value() || *value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(flag, " must be at least 1, not ", *value));
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
