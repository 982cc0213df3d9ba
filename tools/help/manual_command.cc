#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/help/commands.h"
#include "tools/help/manual.h"
#include "tools/version/version.h"

namespace sluice {
namespace {

absl::Status WritePages(const CommandEntry& root, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": cannot be made: ", error.message()));
  }
  for (const CommandEntry* command : AllCommands(root)) {
    absl::Status written = WriteOutput(absl::StrCat(folder, "/", ManualFile(*command)),
                                       ManualPage(*command, root, VersionNumber()));
    if (!written.ok()) return written;
  }
  return absl::OkStatus();
}

}  // namespace

void AddManualCommand(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("manual", "Write the manual pages, for whoever packages sluice");
  command->group("");  // not for everybody
  auto folder = std::make_shared<std::string>();
  command->add_option("-o,--output", *folder, "Folder to write them to")->required();
  command->callback([&app, folder, exit_code] {
    const absl::Status status = WritePages(ReadCommands(app), *folder);
    *exit_code = status.ok() ? kExitDone : Fail(status);
  });
}

}  // namespace sluice
