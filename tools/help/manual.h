#ifndef SLUICE_TOOLS_HELP_MANUAL_H_
#define SLUICE_TOOLS_HELP_MANUAL_H_

#include <string>

#include "tools/help/commands.h"

namespace sluice {

// "sluice-schedule-show.1": the file of a command's manual page.
std::string ManualFile(const CommandEntry& command);
// The page, for man(7). `root` is sluice itself, for what all pages say.
std::string ManualPage(const CommandEntry& command, const CommandEntry& root,
                       const std::string& version);

}  // namespace sluice

#endif  // SLUICE_TOOLS_HELP_MANUAL_H_
