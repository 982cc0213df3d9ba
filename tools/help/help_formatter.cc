#include "tools/help/help_formatter.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tools/terminal.h"

namespace sluice {
namespace {

constexpr int kColumns = 80;
constexpr size_t kLeft = 30;  // columns of the options

// `left`, and beside it the lines of `right`; below it where it is too long.
std::string TwoColumns(const std::string& left, const std::string& right) {
  const bool beside = left.size() + 2 <= kLeft;
  std::string text = absl::StrCat(left, beside ? "" : "\n",
                                  std::string(beside ? kLeft - left.size() : kLeft, ' '));
  AppendWrapped(right, kLeft, kLeft, kColumns, text);
  return text;
}

}  // namespace

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  return TwoColumns(
      absl::StrCat("  ", make_option_name(option, is_positional), make_option_opts(option)),
      make_option_desc(option));
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return TwoColumns(absl::StrCat("  ", command->get_name()), command->get_description());
}

// Without the value that CLI11 writes behind a negation: "--pack,--no-pack", not "--no-pack{false}".
std::string HelpFormatter::make_option_name(const CLI::Option* option, bool is_positional) const {
  return absl::StrReplaceAll(CLI::Formatter::make_option_name(option, is_positional),
                             {{"{false}", ""}});
}

std::string HelpFormatter::ValueName(const CLI::Option& option) {
  if (option.get_type_size() == 0) return "";  // a flag
  const std::string type = option.get_type_name();
  const size_t colon = type.find(':');
  const bool choice = colon != std::string::npos && type.compare(colon + 1, 1, "{") == 0;
  return choice ? type.substr(colon + 1) : type.substr(0, colon);
}

// " INT", " {fp32,bf16}", " TEXT (required)".
std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  const std::string value = ValueName(*option);
  if (value.empty()) return "";
  return absl::StrCat(" ", value, option->get_required() ? " (required)" : "");
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::string text = option->get_description();
  const std::string value = option->get_default_str();
  if (value.empty() || absl::StrContains(text, "default")) return text;
  return absl::StrCat(text, " (default: ", value, ")");
}

}  // namespace sluice
