#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "models/spec/json_text.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/schedule/answer/schedule_check.h"
#include "tools/schedule/answer/schedule_compare.h"
#include "tools/schedule/answer/schedule_details.h"
#include "tools/schedule/answer/schedule_list.h"
#include "tools/schedule/answer/schedule_show.h"
#include "tools/schedule/schedule_flags.h"
#include "tools/terminal.h"

namespace sluice {
namespace {

absl::Status List(const ScheduleFlags& flags) {
  if (!flags.what.empty() && flags.brief) {
    return absl::InvalidArgumentError(
        absl::StrCat("--brief lists all schedules; leave it out, or leave out ", flags.what));
  }
  if (!flags.what.empty()) return DescribeSchedule(flags.what, flags.json);
  if (flags.json) return WriteOutput("", JsonText(CatalogueJson(), 2) + "\n");
  return WriteOutput(
      "", flags.brief ? BriefCatalogueText(OutputColumns()) : CatalogueText(OutputColumns()));
}

absl::Status Show(const ScheduleFlags& flags) {
  const absl::StatusOr<ShowQuestion> question = ReadShowQuestion(flags);
  return question.ok() ? ShowSchedule(*question) : question.status();
}

absl::Status Compare(const ScheduleFlags& flags) {
  const absl::StatusOr<CompareQuestion> question = ReadCompareQuestion(flags);
  return question.ok() ? CompareSchedules(*question) : question.status();
}

absl::Status Check(const ScheduleFlags& flags) {
  return CheckTimetable({.file = flags.what, .placement = flags.placement, .json = flags.json});
}

// One subcommand: its flags, and the function that runs it.
struct Subcommand {
  const char* name;
  const char* what;
  const char* example;
  void (*add_flags)(CLI::App&, ScheduleFlags&);
  absl::Status (*run)(const ScheduleFlags&);
};

constexpr Subcommand kSubcommands[] = {
    {"list", "List all schedules, with their formulas and papers, or describe one",
     "sluice schedule list zbv", AddListFlags, List},
    {"show", "Draw or export one timetable",
     "sluice schedule show interleaved -p 4 -m 8 -v 2 --format svg -o out.svg", AddShowFlags, Show},
    {"compare", "Compare several schedules in a table",
     "sluice schedule compare 1f1b zb-h1 -p 4 -m 8", AddCompareFlags, Compare},
    {"check", "Prove that a timetable is sound, or list defects", "sluice schedule check table.csv",
     AddCheckFlags, Check},
};

int Run(const Subcommand& subcommand, const ScheduleFlags& flags) {
  const absl::Status done = subcommand.run(flags);
  return done.ok() ? kExitDone : Fail(done);
}

}  // namespace

void AddScheduleCommand(CLI::App& app, int* exit_code) {
  CLI::App* schedule =
      app.add_subcommand("schedule", "Draw, compare and check pipeline timetables");
  schedule->require_subcommand(1);
  schedule->footer("Example: sluice schedule show 1f1b -p 4 -m 8");
  for (const Subcommand& subcommand : kSubcommands) {
    CLI::App* added = schedule->add_subcommand(subcommand.name, subcommand.what);
    added->footer(absl::StrCat("Example: ", subcommand.example));
    const auto flags = std::make_shared<ScheduleFlags>();
    subcommand.add_flags(*added, *flags);
    added->callback([&subcommand, flags, exit_code] { *exit_code = Run(subcommand, *flags); });
  }
}

}  // namespace sluice
