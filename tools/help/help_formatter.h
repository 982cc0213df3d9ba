#ifndef SLUICE_TOOLS_HELP_HELP_FORMATTER_H_
#define SLUICE_TOOLS_HELP_HELP_FORMATTER_H_

#include <CLI/CLI.hpp>
#include <string>

namespace sluice {

// Help in two columns that fit a terminal of 80: an option with the kind of its value, and what it
// does, with its default at the end.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  // "INT", "{fp32,bf16}", "TEXT": the kind of an option's value, without the range against which it
  // is checked (the error message gives that); empty for what takes no value.
  static std::string ValueName(const CLI::Option& option);
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_HELP_HELP_FORMATTER_H_
