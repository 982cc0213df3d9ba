#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/command.h"
#include "tools/help/usage_error.h"

namespace sluice {
namespace {

// The command of that path below `app`. NotFound names the word that is no command.
absl::StatusOr<const CLI::App*> FindCommand(const CLI::App& app,
                                            const std::vector<std::string>& path) {
  const CLI::App* command = &app;
  for (const std::string& name : path) {
    const std::vector<std::string> names = CommandNames(*command);
    if (names.empty()) {
      return absl::NotFoundError(absl::StrCat("'", name, "' is no command: '", command->get_name(),
                                              "' has none below it"));
    }
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return absl::NotFoundError(
          absl::StrCat(UnknownCommand(name, *command), "see 'sluice --help'"));
    }
    command = command->get_subcommand(name);
  }
  return command;
}

}  // namespace

void AddHelpCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("help", "Say what a command does and takes");
  command->footer("Example:\n  sluice help schedule show");
  auto path = std::make_shared<std::vector<std::string>>();
  command->add_option("COMMAND", *path, "The command; without one, all commands");
  command->callback([&app, path, exit_code] {
    const absl::StatusOr<const CLI::App*> found = FindCommand(app, *path);
    // App::help would be that of the command that was given, which is this one.
    const std::string name = absl::StrJoin(*path, " ");
    if (found.ok()) {
      std::cout << app.get_formatter()->make_help(
          *found, absl::StrCat(app.get_name(), name.empty() ? "" : " ", name),
          CLI::AppFormatMode::Normal);
    }
    *exit_code = found.ok() ? kExitDone : Fail(found.status());
  });
}

}  // namespace sluice
