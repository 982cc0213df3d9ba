#include "tools/help/usage_error.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <regex>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedules/generators/did_you_mean.h"
#include "tools/help/flags_meant.h"

namespace sluice {
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

// The first of `words` that is written like a flag, without its value; empty where there is none.
// A negative number is none.
std::string FirstFlag(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    double number = 0;
    if (word.size() < 2 || word.front() != '-' || word == "--") continue;
    if (!absl::SimpleAtod(word, &number)) return word.substr(0, word.find('='));
  }
  return "";
}

// "did you mean --stages? ", or nothing where no flag of `command` is like it or says the same.
std::string FlagMeant(absl::string_view flag, const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options([](const CLI::Option*) { return true; })) {
    const std::vector<std::string>& long_names = option->get_lnames();
    names.insert(names.end(), long_names.begin(), long_names.end());
  }
  const size_t begin = flag.find_first_not_of('-');
  const std::vector<std::string> meant =
      FlagsMeant(begin == flag.npos ? "" : flag.substr(begin), names);
  return meant.empty() ? "" : absl::StrCat("did you mean --", absl::StrJoin(meant, " or --"), "? ");
}

// What is wrong with `flag`, which `command` of `app` does not have, where it is one of what `sluice
// launch` was to start; empty elsewhere. Without a "--" before them CLI11 takes the words of that for
// launch's own.
std::string FlagOfLaunched(const std::string& flag, const CLI::App& command, const CLI::App& app) {
  constexpr char kLaunched[] = "train";
  if (command.get_name() != "launch") return "";
  const std::vector<std::string>& words = command.get_option("command")->results();
  if (words.empty() || words.front() != kLaunched) return "";
  if (app.get_subcommand(kLaunched)->get_option_no_throw(flag) == nullptr) return "";
  return absl::StrCat(flag,
                      " is a flag of 'sluice train', and what is launched is written after --, ",
                      "such as 'sluice launch --processes 2 -- train ", flag, " x'; ");
}

// What is wrong with words that stand beside the flags of `command`, which takes fewer.
std::string WordsTooMany(const std::vector<std::string>& words, const CLI::App& command,
                         const std::string& chosen) {
  const auto quote = [](std::string* out, const std::string& word) {
    absl::StrAppend(out, "'", word, "'");
  };
  std::vector<std::string> taken;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) taken.push_back(absl::AsciiStrToLower(option->get_name(true)));
  }
  return absl::StrCat(
      absl::StrJoin(words, ", ", quote),
      words.size() == 1 ? " is a word too many: '" : " are words too many: '", chosen, "' takes ",
      taken.empty() ? "flags alone" : absl::StrCat("one ", absl::StrJoin(taken, " and one ")),
      "; leave ", words.size() == 1 ? "it" : "them",
      " out, or put a value that has spaces into quotes; ");
}

// What is wrong, without where to read more.
std::string Explain(const CLI::ParseError& error, const CLI::App& app) {
  const CLI::App& last = LastOf(app);
  const std::vector<std::string> words = last.remaining();
  if (words.empty() && !CommandNames(last).empty()) {
    return absl::StrCat("'", Chosen(app),
                        "' needs a command; there are: ", absl::StrJoin(CommandNames(last), ", "),
                        "; ");
  }
  const bool begins_with_flag = !words.empty() && absl::StartsWith(words.front(), "-");
  const auto word = std::find_if(words.begin(), words.end(), [](const std::string& text) {
    return !absl::StartsWith(text, "-");
  });
  if (!CommandNames(last).empty() && word != words.end() && !begins_with_flag)
    return UnknownCommand(*word, last);
  // Before what else may be missing: that is often what the mistyped flag was to give.
  if (const std::string flag = FirstFlag(words); !flag.empty()) {
    std::string launched = FlagOfLaunched(flag, last, app);
    if (!launched.empty()) return launched;
    return absl::StrCat(flag, " is no flag of '", Chosen(app), "'; ", FlagMeant(flag, last));
  }
  if (&last == &app && !words.empty()) {
    return absl::StrCat("'", words.front(), "' is no command; ");
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)
    return WordsTooMany(words, last, Chosen(app));
  static const std::regex conversion("Could not convert: (\\S+) = (.*)");
  std::smatch given;
  std::string what = error.what();
  if (std::regex_match(what, given, conversion)) {
    return absl::StrCat(given.str(1), ": ", given.str(2),
                        " is not a number that this flag takes; ");
  }
  static const std::regex no_value("(\\S+): 1 required .+ missing");
  if (std::regex_match(what, given, no_value))
    return absl::StrCat(given.str(1), " needs a value; ");
  static const std::regex too_many("(\\S+): At Most 1 required but received (\\d+)");
  if (std::regex_match(what, given, too_many)) {
    return absl::StrCat(given.str(1), " takes one value, and is given ", given.str(2),
                        "; leave all but one out; ");
  }
  // CLI11 writes the largest double with all of its 309 digits.
  static const std::regex range("Value (\\S+) not in range \\S+ to \\d{300,}\\.\\d*");
  std::smatch found;
  if (!std::regex_search(what, found, range)) return absl::StrCat(what, "; ");
  double number = 0;
  const char* wrong = !absl::SimpleAtod(found.str(1), &number) ? " is no number"
                      : std::isfinite(number)                  ? " is too small"
                                                               : " is not a finite number";
  return absl::StrCat(found.prefix().str(), found.str(1), wrong, "; ");
}

}  // namespace

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return names;
}

std::string UnknownCommand(absl::string_view name, const CLI::App& app) {
  return absl::StrCat("'", name, "' is no command; ", DidYouMean(name, CommandNames(app)), "; ");
}

std::string ExplainUsageError(const CLI::ParseError& error, const CLI::App& app) {
  return absl::StrCat(Explain(error, app), "see '", Chosen(app), " --help'");
}

}  // namespace sluice
