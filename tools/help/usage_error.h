#ifndef SLUICE_TOOLS_HELP_USAGE_ERROR_H_
#define SLUICE_TOOLS_HELP_USAGE_ERROR_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace sluice {

// What is wrong with a command line that CLI11 refused, in one line for people, with the command or
// flag that was probably meant and where to read more: "--stags is no flag of 'sluice train'; did you
// mean --stages? See 'sluice train --help'".
std::string ExplainUsageError(const CLI::ParseError& error, const CLI::App& app);

// The names of the commands directly below `app` that people are shown.
std::vector<std::string> CommandNames(const CLI::App& app);
// "'trian' is no command; did you mean 'train'? there are: ..."
std::string UnknownCommand(absl::string_view name, const CLI::App& app);

}  // namespace sluice

#endif  // SLUICE_TOOLS_HELP_USAGE_ERROR_H_
