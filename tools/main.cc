#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schedules/generators/did_you_mean.h"
#include "tools/command.h"
#include "tools/help_formatter.h"

namespace {

// The subcommand as far as it was recognised, such as "sluice train".
std::string Chosen(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* command : app.get_subcommands()) {
    absl::StrAppend(&name, " ", Chosen(*command));
  }
  return name;
}

// The command that was given last: `app` itself, or one below it.
const CLI::App& LastOf(const CLI::App& app) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  return given.empty() ? app : LastOf(*given.front());
}

// The commands directly below `app`.
std::vector<std::string> CommandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// What is wrong, in one line, for people.
std::string Explain(const CLI::ParseError& error, const CLI::App& app) {
  const CLI::App& last = LastOf(app);
  const std::vector<std::string> commands = CommandsOf(last);
  const std::vector<std::string> words = last.remaining();
  const auto word = std::find_if(words.begin(), words.end(),
                                 [](const std::string& text) { return text.rfind('-', 0) != 0; });
  if (!commands.empty() && word != words.end()) {
    return absl::StrCat("'", *word, "' is no command; ", sluice::DidYouMean(*word, commands));
  }
  if (&last == &app && !words.empty()) {
    return absl::StrCat("'", words.front(), "' is no command");
  }
  // CLI11 writes the largest double with all of its 309 digits.
  static const std::regex range("Value (\\S+) not in range \\S+ to \\d{300,}\\.\\d*");
  std::string text = error.what();
  std::smatch found;
  if (!std::regex_search(text, found, range)) return text;
  double number = 0;
  const char* wrong = absl::SimpleAtod(found.str(1), &number) ? " is too small" : " is no number";
  return absl::StrCat(found.prefix().str(), found.str(1), wrong);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"sluice: plan, schedule and train a model across pipeline stages", "sluice"};
  app.formatter(std::make_shared<sluice::HelpFormatter>());  // also for the subcommands
  app.require_subcommand(1);
  int exit_code = sluice::kExitDone;
  sluice::AddScheduleCommand(app, &exit_code);
  sluice::AddPlanCommand(app, &exit_code);
  sluice::AddProfileCommand(app, &exit_code);
  sluice::AddTrainCommand(app, &exit_code);
  sluice::AddSampleCommand(app, &exit_code);
  sluice::AddChatCommand(app, &exit_code);
  sluice::AddScoreCommand(app, &exit_code);
  sluice::AddTokenizeCommand(app, &exit_code);
  sluice::AddMergeCommand(app, &exit_code);
  sluice::AddCalibrateCommand(app, &exit_code);
  sluice::AddDoctorCommand(app, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    return sluice::Fail(absl::InvalidArgumentError(
        absl::StrCat(Explain(error, app), "; see '", Chosen(app), " --help'")));
  }
  return exit_code;
}
