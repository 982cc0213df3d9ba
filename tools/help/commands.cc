#include "tools/help/commands.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tools/help/help_formatter.h"
#include "tools/help/suggested_values.h"

namespace sluice {
namespace {

// " {fp32,bf16}" to its values; nothing of any other kind of value.
std::vector<std::string> ListedChoices(absl::string_view value) {
  if (!absl::ConsumePrefix(&value, "{") || !absl::ConsumeSuffix(&value, "}")) return {};
  return absl::StrSplit(value, ',');
}

OptionEntry ReadOption(const CLI::Option& option, const std::string& command) {
  const HelpFormatter formatter;
  OptionEntry entry;
  for (const std::string& name : option.get_snames()) {
    entry.names.push_back(absl::StrCat("-", name));
  }
  for (const std::string& name : option.get_lnames()) {
    entry.names.push_back(absl::StrCat("--", name));
  }
  if (entry.names.empty()) entry.positional = option.get_name(/*positional=*/true);
  entry.value = formatter.ValueName(option);
  entry.required = option.get_required();
  entry.repeats = option.get_items_expected_max() > 1;
  entry.description = formatter.make_option_desc(&option);
  entry.group = option.get_group();
  const std::string name = entry.is_positional() ? entry.positional : entry.names.back();
  const SuggestedValues suggested = SuggestValues(command, name);
  entry.choices = ListedChoices(entry.value);
  if (entry.choices.empty()) entry.choices = suggested.values;
  entry.takes_file = suggested.files && entry.value == "TEXT";
  return entry;
}

// The commands below `command` as `help` takes them: their names alone, one behind the other.
std::vector<CommandEntry> NamesBelow(const CommandEntry& command, const CommandEntry& help) {
  std::vector<CommandEntry> names;
  for (const CommandEntry& below : command.commands) {
    CommandEntry name;
    name.path = help.path;
    name.path.push_back(below.path.back());
    name.description = below.description;
    name.commands = NamesBelow(below, name);
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

std::string CommandEntry::PathName(const char* between) const {
  return absl::StrJoin(path, between);
}

CommandEntry ReadCommands(const CLI::App& app) {
  CommandEntry entry;
  for (const CLI::App* at = &app; at->get_parent() != nullptr; at = at->get_parent()) {
    entry.path.insert(entry.path.begin(), at->get_name());
  }
  entry.description = app.get_description();
  entry.footer = app.get_footer();
  const std::string name = entry.PathName(" ");
  for (const CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    if (!option->get_group().empty()) entry.options.push_back(ReadOption(*option, name));
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) entry.commands.push_back(ReadCommands(*command));
  }
  return entry;
}

CommandEntry WithHelpOfCommands(CommandEntry root) {
  const CommandEntry commands = root;
  for (CommandEntry& command : root.commands) {
    if (command.path != std::vector<std::string>{"help"}) continue;
    std::erase_if(command.options,
                  [](const OptionEntry& option) { return option.is_positional(); });
    command.commands = NamesBelow(commands, command);
  }
  return root;
}

std::vector<const CommandEntry*> AllCommands(const CommandEntry& command) {
  std::vector<const CommandEntry*> all = {&command};
  for (const CommandEntry& below : command.commands) {
    for (const CommandEntry* each : AllCommands(below)) all.push_back(each);
  }
  return all;
}

}  // namespace sluice
