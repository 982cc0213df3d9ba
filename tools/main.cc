#include <CLI/CLI.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "tools/command.h"

namespace {

// "sluice train", as far as it was recognised.
std::string Chosen(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* command : app.get_subcommands()) {
    absl::StrAppend(&name, " ", Chosen(*command));
  }
  return name;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"sluice: plan, schedule and train a model across pipeline stages", "sluice"};
  app.require_subcommand(1);
  int exit_code = sluice::kExitDone;
  sluice::AddScheduleCommand(app, &exit_code);
  sluice::AddPlanCommand(app, &exit_code);
  sluice::AddProfileCommand(app, &exit_code);
  sluice::AddTrainCommand(app, &exit_code);
  sluice::AddSampleCommand(app, &exit_code);
  sluice::AddDoctorCommand(app, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    const std::string command = Chosen(app);
    return sluice::Fail(
        absl::InvalidArgumentError(absl::StrCat(error.what(), "; see '", command, " --help'")));
  }
  return exit_code;
}
