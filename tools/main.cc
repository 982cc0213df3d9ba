#include <CLI/CLI.hpp>

#include "tools/command.h"

int main(int argc, char** argv) {
  CLI::App app{"sluice: plan, schedule and train a model across pipeline stages", "sluice"};
  app.require_subcommand(1);
  int exit_code = sluice::kExitDone;
  sluice::AddScheduleCommand(app, &exit_code);
  sluice::AddPlanCommand(app, &exit_code);
  sluice::AddProfileCommand(app, &exit_code);
  sluice::AddTrainCommand(app, &exit_code);
  sluice::AddDoctorCommand(app, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? sluice::kExitDone : sluice::kExitBadInput;
  }
  return exit_code;
}
