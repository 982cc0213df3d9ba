#ifndef SLUICE_TOOLS_HELP_COMPLETION_H_
#define SLUICE_TOOLS_HELP_COMPLETION_H_

#include <string>

#include "tools/help/commands.h"

namespace sluice {

// Scripts that make a shell complete the commands of `root`, their flags and the values of these.
std::string BashCompletion(const CommandEntry& root);
std::string ZshCompletion(const CommandEntry& root);
std::string FishCompletion(const CommandEntry& root);

}  // namespace sluice

#endif  // SLUICE_TOOLS_HELP_COMPLETION_H_
