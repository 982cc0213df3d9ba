#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/help/completion.h"

namespace sluice {
namespace {

// What does not depend on the commands: which command the line is in, and which value is asked for.
// bash breaks --flag=value into three words, of which the second is "=". After a "--" comes a
// command of its own (sluice launch).
constexpr char kBody[] = R"bash(
_sluice() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} path='' word i
  if [[ $cur == '=' ]]; then
    cur=''
  elif [[ $prev == '=' ]]; then
    prev=${COMP_WORDS[COMP_CWORD-2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == '--' ]]; then
      path=''
    elif [[ " $(_sluice_commands "$path") " == *" $word "* ]]; then
      path="${path:+$path }$word"
    fi
  done
  COMPREPLY=()
  local values
  if [[ $prev == -* && $prev != '--' ]] && values=$(_sluice_values "$path" "$prev"); then
    :
  elif [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_sluice_flags "$path")" -- "$cur")
    return
  else
    values="$(_sluice_commands "$path") $(_sluice_values "$path" '')"
  fi
  mapfile -t COMPREPLY < <(compgen -W "${values//@files/}" -- "$cur")
  if [[ " $values " == *' @files '* ]]; then
    compopt -o filenames
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
  fi
}

complete -F _sluice sluice
)bash";

std::string Values(const OptionEntry& option) {
  std::vector<std::string> values = option.choices;
  if (option.takes_file) values.emplace_back("@files");
  return absl::StrJoin(values, " ");
}

// One function that prints, for a command, its part of `text`.
template <typename TextOf>
std::string Function(const char* name, const CommandEntry& root, const TextOf& text_of) {
  std::string function = absl::StrCat(name, "() {\n  case $1 in\n");
  for (const CommandEntry* command : AllCommands(root)) {
    const std::string text = text_of(*command);
    if (text.empty()) continue;
    absl::StrAppend(&function, "    '", command->PathName(" "), "') echo '", text, "' ;;\n");
  }
  return absl::StrCat(function, "  esac\n}\n");
}

// The values of a flag ($2) of a command ($1), or, with an empty flag, of its positional arguments;
// false for a flag that takes none.
std::string ValuesFunction(const CommandEntry& root) {
  std::string function = "_sluice_values() {\n  case \"$1:$2\" in\n";
  for (const CommandEntry* command : AllCommands(root)) {
    for (const OptionEntry& option : command->options) {
      if (option.value.empty() && !option.is_positional()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names) {
        patterns.push_back(absl::StrCat("'", command->PathName(" "), ":", name, "'"));
      }
      if (option.is_positional())
        patterns.push_back(absl::StrCat("'", command->PathName(" "), ":'"));
      absl::StrAppend(&function, "    ", absl::StrJoin(patterns, " | "), ") echo '", Values(option),
                      "' ;;\n");
    }
  }
  return absl::StrCat(function, "    *) return 1 ;;\n  esac\n}\n");
}

}  // namespace

std::string BashCompletion(const CommandEntry& root) {
  const auto commands = [](const CommandEntry& command) {
    std::vector<std::string> names;
    for (const CommandEntry& below : command.commands) names.push_back(below.path.back());
    return absl::StrJoin(names, " ");
  };
  const auto flags = [](const CommandEntry& command) {
    std::vector<std::string> names;
    for (const OptionEntry& option : command.options) {
      names.insert(names.end(), option.names.begin(), option.names.end());
    }
    return absl::StrJoin(names, " ");
  };
  return absl::StrCat("# Completion of sluice for bash; made by 'sluice completion bash'.\n",
                      Function("_sluice_commands", root, commands),
                      Function("_sluice_flags", root, flags), ValuesFunction(root), kBody);
}

}  // namespace sluice
