#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tools/help/completion.h"

namespace sluice {
namespace {

// Within '...', in a specification of _arguments, where ':', '[' and ']' mean something.
std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"'", "'\\''"}, {"\\", "\\\\"}, {":", "\\:"}, {"[", "\\["}, {"]", "\\]"}});
}

// ":value:action": what completes a value.
std::string ValueOf(const OptionEntry& option) {
  const std::string what = option.is_positional() ? option.positional : option.value;
  const std::string choices = absl::StrCat("(", absl::StrJoin(option.choices, " "), ")");
  std::string action = option.choices.empty() ? " " : choices;
  if (option.takes_file) {
    action = option.choices.empty() ? "_files"
                                    : absl::StrCat("_alternative \"names\\:name\\:", choices,
                                                   "\" \"files\\:file\\:_files\"");
    if (!option.choices.empty()) action = absl::StrCat("{", action, "}");
  }
  return absl::StrCat(":", Escaped(what[0] == '{' ? "value" : what), ":", action);
}

void AppendOption(const OptionEntry& option, std::string* script) {
  if (option.is_positional()) {
    absl::StrAppend(script, " \\\n    '", option.repeats ? "*" : "", ValueOf(option), "'");
    return;
  }
  for (const std::string& name : option.names) {
    // A long name takes its value after a space or "=".
    const bool long_name = name[1] == '-';
    absl::StrAppend(script, " \\\n    '", option.repeats ? "*" : "", name,
                    option.value.empty() ? "" : (long_name ? "=" : "+"), "[",
                    Escaped(option.description), "]", option.value.empty() ? "" : ValueOf(option),
                    "'");
  }
}

std::string FunctionName(const CommandEntry& command) {
  return absl::StrCat("_sluice", command.path.empty() ? "" : "_", command.PathName("_"));
}

std::string Function(const CommandEntry& command) {
  std::string script = absl::StrCat(FunctionName(command), "() {\n");
  if (!command.commands.empty()) absl::StrAppend(&script, "  local state line\n");
  absl::StrAppend(&script, "  _arguments -s", command.commands.empty() ? "" : " -C");
  for (const OptionEntry& option : command.options) AppendOption(option, &script);
  if (command.commands.empty()) return absl::StrCat(script, "\n}\n");
  absl::StrAppend(&script, " \\\n    '1:command:((");
  for (const CommandEntry& below : command.commands) {
    absl::StrAppend(&script, below.path.back(), "\\:\"", Escaped(below.description), "\" ");
  }
  absl::StrAppend(&script,
                  "))' \\\n    '*::argument:->arguments'\n  case $state in\n    arguments)\n",
                  "      case $line[1] in\n");
  for (const CommandEntry& below : command.commands) {
    absl::StrAppend(&script, "        ", below.path.back(), ") ", FunctionName(below), " ;;\n");
  }
  return absl::StrCat(script, "      esac ;;\n  esac\n}\n");
}

}  // namespace

std::string ZshCompletion(const CommandEntry& root) {
  std::string script =
      "#compdef sluice\n# Completion of sluice for zsh; made by 'sluice completion zsh'.\n";
  for (const CommandEntry* command : AllCommands(root))
    absl::StrAppend(&script, Function(*command));
  // As a file in fpath it is the function itself; sourced, it says for which command it is.
  return absl::StrCat(script, "if [ \"$funcstack[1]\" = _sluice ]; then\n  _sluice \"$@\"\nelse\n",
                      "  compdef _sluice sluice\nfi\n");
}

}  // namespace sluice
