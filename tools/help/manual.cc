#include "tools/help/manual.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tools/command.h"

namespace sluice {
namespace {

// Text as it is: roff reads '\' and '-' in a way of its own, and lines that begin with '.' or '\''
// as commands.
std::string Plain(const std::string& text) {
  std::string plain = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  if (absl::StartsWith(plain, ".") || absl::StartsWith(plain, "'")) plain.insert(0, "\\&");
  return absl::StrReplaceAll(plain, {{"\n.", "\n\\&."}, {"\n'", "\n\\&'"}});
}

// The command as it is typed: "sluice schedule show".
std::string Typed(const CommandEntry& command) {
  return absl::StrCat("sluice", command.path.empty() ? "" : " ", command.PathName(" "));
}

std::string PageName(const CommandEntry& command) {
  return absl::StrCat("sluice", command.path.empty() ? "" : "-", command.PathName("-"));
}

void AppendSynopsis(const CommandEntry& command, std::string* page) {
  absl::StrAppend(page, ".SH SYNOPSIS\n.B ", Plain(Typed(command)), "\n");
  if (!command.commands.empty()) {
    absl::StrAppend(page, ".I COMMAND\n[\\fIOPTION\\fR]...\n");
    return;
  }
  absl::StrAppend(page, "[\\fIOPTION\\fR]...\n");
  for (const OptionEntry& option : command.options) {
    if (option.required && !option.is_positional()) {
      absl::StrAppend(page, "\\fB", Plain(option.names.back()), "\\fR \\fI", Plain(option.value),
                      "\\fR\n");
    }
  }
  for (const OptionEntry& option : command.options) {
    if (!option.is_positional()) continue;
    const std::string name =
        absl::StrCat("\\fI", Plain(option.positional), "\\fR", option.repeats ? "..." : "");
    absl::StrAppend(page, option.required ? name : absl::StrCat("[", name, "]"), "\n");
  }
}

void AppendOption(const OptionEntry& option, std::string* page) {
  std::vector<std::string> names;
  for (const std::string& name : option.names)
    names.push_back(absl::StrCat("\\fB", Plain(name), "\\fR"));
  if (option.is_positional())
    names.push_back(absl::StrCat("\\fI", Plain(option.positional), "\\fR"));
  absl::StrAppend(page, ".TP\n", absl::StrJoin(names, ", "));
  if (!option.value.empty() && !option.is_positional()) {
    absl::StrAppend(page, " \\fI", Plain(option.value), "\\fR");
  }
  absl::StrAppend(page, "\n", Plain(option.description), option.required ? " (required)" : "",
                  "\n");
}

// The options below their headings, in the order of --help.
void AppendOptions(const CommandEntry& command, std::string* page) {
  std::vector<std::string> groups;
  for (const OptionEntry& option : command.options) {
    const std::string group = option.is_positional() ? "Arguments" : option.group;
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  }
  std::stable_partition(groups.begin(), groups.end(),
                        [](const std::string& group) { return group == "Arguments"; });
  for (const std::string& group : groups) {
    absl::StrAppend(page, ".SH ", absl::AsciiStrToUpper(Plain(group)), "\n");
    for (const OptionEntry& option : command.options) {
      if ((option.is_positional() ? "Arguments" : option.group) == group)
        AppendOption(option, page);
    }
  }
}

void AppendExamples(const CommandEntry& command, std::string* page) {
  if (command.footer.empty() || command.path.empty()) return;
  absl::StrAppend(page, ".SH NOTES AND EXAMPLES\n.EX\n", Plain(command.footer), "\n.EE\n");
}

void AppendExitStatus(std::string* page) {
  absl::StrAppend(page, ".SH EXIT STATUS\n");
  for (const auto& [code, meaning] : kExitCodeMeanings) {
    absl::StrAppend(page, ".TP\n.B ", static_cast<int>(code), "\n", meaning, "\n");
  }
}

// The pages of all commands but this one.
void AppendSeeAlso(const CommandEntry& command, const CommandEntry& root, std::string* page) {
  std::vector<std::string> others;
  for (const CommandEntry* other : AllCommands(root)) {
    if (other->path == command.path) continue;
    others.push_back(absl::StrCat(".BR ", Plain(PageName(*other)), " (1)"));
  }
  absl::StrAppend(page, ".SH SEE ALSO\n", absl::StrJoin(others, ",\n"), "\n");
}

}  // namespace

std::string ManualFile(const CommandEntry& command) {
  return absl::StrCat(PageName(command), ".1");
}

std::string ManualPage(const CommandEntry& command, const CommandEntry& root,
                       const std::string& version) {
  std::string page =
      absl::StrCat(".TH ", absl::AsciiStrToUpper(Plain(PageName(command))), " 1 \"\" \"sluice ",
                   version, "\" \"sluice\"\n.SH NAME\n", Plain(PageName(command)), " \\- ",
                   Plain(std::string(absl::StripPrefix(command.description, "sluice: "))), "\n");
  AppendSynopsis(command, &page);
  if (!command.commands.empty()) {
    absl::StrAppend(&page, ".SH COMMANDS\n");
    for (const CommandEntry& below : command.commands) {
      absl::StrAppend(&page, ".TP\n.B ", Plain(below.path.back()), "\n", Plain(below.description),
                      "\n");
    }
  }
  AppendOptions(command, &page);
  AppendExitStatus(&page);
  AppendExamples(command, &page);
  AppendSeeAlso(command, root, &page);
  return page;
}

}  // namespace sluice
