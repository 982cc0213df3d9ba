#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tools/help/completion.h"

namespace sluice {
namespace {

// Which command the line is in: __sluice_in 'schedule show'. A command's own words come before its
// flags; after a "--" comes a command of its own (sluice launch).
constexpr char kHead[] = R"fish(# Completion of sluice for fish; made by 'sluice completion fish'.
function __sluice_in
    set -l path
    for word in (commandline -opc)[2..]
        if test "$word" = --
            set path
        else if contains -- (string join -- ' ' $path $word) $__sluice_paths
            set -a path $word
        end
    end
    test "$path" = "$argv"
end

complete -c sluice -f
)fish";

std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

// The beginning of a line for `command`.
std::string Line(const CommandEntry& command) {
  return absl::StrCat("complete -c sluice -n \"__sluice_in ", command.PathName(" "), "\"");
}

std::string OptionLine(const CommandEntry& command, const OptionEntry& option) {
  std::string line = Line(command);
  for (const std::string& name : option.names) {
    absl::StrAppend(&line, name[1] == '-' ? " -l " : " -s ", name.substr(name[1] == '-' ? 2 : 1));
  }
  // -x: takes a value, which is no file; -r -F: one that may be.
  if (!option.value.empty() && !option.is_positional()) {
    absl::StrAppend(&line, option.takes_file ? " -r" : " -x");
  }
  if (option.takes_file) absl::StrAppend(&line, " -F");
  if (!option.choices.empty()) {
    absl::StrAppend(&line, " -a ", Quoted(absl::StrJoin(option.choices, " ")));
  }
  if (!option.is_positional()) absl::StrAppend(&line, " -d ", Quoted(option.description));
  return absl::StrCat(line, "\n");
}

}  // namespace

std::string FishCompletion(const CommandEntry& root) {
  std::string script = kHead;
  std::vector<std::string> paths;
  for (const CommandEntry* command : AllCommands(root)) {
    if (!command->path.empty()) paths.push_back(Quoted(command->PathName(" ")));
    for (const CommandEntry& below : command->commands) {
      absl::StrAppend(&script, Line(*command), " -a ", below.path.back(), " -d ",
                      Quoted(below.description), "\n");
    }
    for (const OptionEntry& option : command->options) {
      if (option.is_positional() && option.choices.empty() && !option.takes_file) continue;
      absl::StrAppend(&script, OptionLine(*command, option));
    }
  }
  return absl::StrCat("set -g __sluice_paths ", absl::StrJoin(paths, " "), "\n", script);
}

}  // namespace sluice
