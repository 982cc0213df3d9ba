#ifndef SLUICE_TOOLS_HELP_COMMANDS_H_
#define SLUICE_TOOLS_HELP_COMMANDS_H_

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace sluice {

// A flag or a positional argument of a command, as --help knows it.
struct OptionEntry {
  std::vector<std::string> names;    // "-p", "--ranks"; of a positional argument none
  std::string positional;            // its name; empty for a flag
  std::string value;                 // "INT", "TEXT", "{fp32,bf16}"; empty where it takes none
  std::vector<std::string> choices;  // values that can be offered; not always all that there are
  bool takes_file = false;           // the value may be the name of a file or a folder
  bool required = false;
  bool repeats = false;     // takes several values
  std::string description;  // with the default
  std::string group;        // the heading above it

  bool is_positional() const { return names.empty(); }
};

struct CommandEntry {
  std::vector<std::string> path;  // "schedule", "show"; empty for sluice itself
  std::string description;        // one line
  std::string footer;             // examples, as --help prints them
  std::vector<OptionEntry> options;
  std::vector<CommandEntry> commands;  // below it

  std::string PathName(const char* between) const;  // "schedule-show", with "-"
};

// Everything that people are shown of `app`: what completion and manual pages are made of.
CommandEntry ReadCommands(const CLI::App& app);
// `root` as a shell completes it: behind `help` are the names of commands, one below the other.
CommandEntry WithHelpOfCommands(CommandEntry root);
// The command and all below it, the command first.
std::vector<const CommandEntry*> AllCommands(const CommandEntry& command);

}  // namespace sluice

#endif  // SLUICE_TOOLS_HELP_COMMANDS_H_
