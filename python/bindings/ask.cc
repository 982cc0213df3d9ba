#include "python/bindings/ask.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedules/check/validate.h"
#include "schedules/lower.h"
#include "schedules/pytorch.h"
#include "tools/flag_values.h"
#include "tools/plan/plan_drawing.h"
#include "tools/plan/plan_flags.h"
#include "tools/plan/plan_question.h"
#include "tools/schedule/answer/schedule_dealt.h"
#include "tools/schedule/schedule_flags.h"
#include "tools/schedule/timetable/schedule_auto.h"
#include "tools/schedule/timetable/schedule_names.h"
#include "tools/schedule/timetable/schedule_source.h"

namespace sluice::python {
namespace {

// The largest number of defects that are listed.
constexpr int kMostDefects = 10000;

// Reads `flags` and then the positional arguments with the options of `app`.
absl::Status Parse(CLI::App& app, const std::vector<std::string>& positional, const Flags& flags) {
  CheckFlagValues(app);
  Flags words = flags;
  words.push_back("--");  // so that no name is taken for a flag
  words.insert(words.end(), positional.begin(), positional.end());
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  return absl::OkStatus();
}

absl::StatusOr<ShowQuestion> ReadShow(const std::string& what, const Flags& words,
                                      const CostsText& costs) {
  CLI::App app;
  ScheduleFlags flags;
  AddShowFlags(app, flags);
  if (absl::Status status = Parse(app, {what}, words); !status.ok()) return status;
  absl::StatusOr<ShowQuestion> question = ReadShowQuestion(flags);
  if (!question.ok() || !costs) return question;
  absl::StatusOr<GivenCosts> given = GivenCosts::FromJson(*costs, "costs");
  if (!given.ok()) return given.status();
  question->asked.costs = *std::move(given);
  return question;
}

// With its simulation.
absl::StatusOr<AskedTimetable> Simulated(FoundTable found, PricedTimetable priced) {
  absl::StatusOr<Simulation> run = RunPriced(priced);
  if (!run.ok()) return run.status();
  return AskedTimetable{.table = std::move(found.table),
                        .line_end = found.line_end,
                        .defects = {},
                        .shown = ShownSchedule{.table = std::move(priced.table),
                                               .costs = std::move(priced.costs),
                                               .activation_limit = priced.activation_limit,
                                               .run = *std::move(run),
                                               .measured = {}}};
}

absl::StatusOr<AskedTimetable> Priced(FoundTable found, const ScheduleQuestion& asked) {
  absl::StatusOr<PricedTimetable> priced = PriceTimetable(found.table, WithCostsOf(found, asked));
  if (!priced.ok()) return priced.status();
  return Simulated(std::move(found), *std::move(priced));
}

absl::StatusOr<AskedTimetable> Dealt(const ShowQuestion& question) {
  absl::StatusOr<DealtSchedule> dealt = DealSchedule(question);
  if (!dealt.ok()) return dealt.status();
  return AskedTimetable{.table = std::move(dealt->table),
                        .line_end = dealt->line_end,
                        .defects = {},
                        .shown = std::move(dealt->shown)};
}

}  // namespace

absl::StatusOr<AskedTimetable> AskSchedule(const std::string& name, const Flags& flags,
                                           const CostsText& costs, bool one_of_several,
                                           const StopFunction& stop) {
  if (NamesFile(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' names a file; sluice.read_csv reads it"));
  }
  absl::StatusOr<ShowQuestion> question = ReadShow(name, flags, costs);
  if (!question.ok()) return question.status();
  ScheduleQuestion& asked = question->asked;
  asked.stop = stop;
  if (one_of_several) asked = QuestionFor(name, std::move(asked));
  if (!asked.stage_members.empty()) return Dealt(*question);
  if (name == kAuto) {
    absl::StatusOr<PricedTimetable> best = AutoTimetable(asked);
    if (!best.ok()) return best.status();
    const bool cut = asked.choose_chunks && best->table.placement.chunks() > 1;
    FoundTable found{.table = best->table, .line_end = LineEnd::kLf, .costs = {}};
    absl::StatusOr<AskedTimetable> shown = Simulated(std::move(found), *std::move(best));
    if (shown.ok()) shown->cut = cut;
    return shown;
  }
  absl::StatusOr<Timetable> table = GenerateTable(name, asked);
  if (!table.ok()) return table.status();
  return Priced({.table = *std::move(table), .line_end = LineEnd::kLf, .costs = {}}, asked);
}

absl::Status CheckComparison(const std::vector<std::string>& names, const Flags& flags,
                             const CostsText& costs) {
  CLI::App app;
  ScheduleFlags read;
  AddCompareFlags(app, read);
  if (absl::Status status = Parse(app, names, flags); !status.ok()) return status;
  const absl::StatusOr<CompareQuestion> question = ReadCompareQuestion(read);
  if (!question.ok()) return question.status();
  if (costs) {
    const absl::StatusOr<GivenCosts> given = GivenCosts::FromJson(*costs, "costs");
    if (!given.ok()) return given.status();
  }
  return names.empty() ? absl::OkStatus() : CheckTaken(names, question->asked);
}

absl::StatusOr<AskedTimetable> AskTable(const std::string& text, const std::string& name,
                                        const Flags& flags, const CostsText& costs) {
  const absl::StatusOr<ShowQuestion> question = ReadShow(name, flags, costs);
  if (!question.ok()) return question.status();
  absl::StatusOr<FoundTable> found = ReadTableText(text, name, question->asked);
  if (!found.ok()) return found.status();
  std::vector<Defect> defects = FindDefects(found->table, kMostDefects);
  if (defects.empty()) return Priced(*std::move(found), question->asked);
  return AskedTimetable{.table = std::move(found->table),
                        .line_end = found->line_end,
                        .defects = std::move(defects),
                        .shown = {}};
}

absl::StatusOr<AskedTimetable> AskPlanTable(const std::string& json, const std::string& name) {
  absl::StatusOr<FoundTable> found = ReadPlanText(json, name);
  if (!found.ok()) return found.status();
  return Priced(*std::move(found), {});
}

absl::StatusOr<std::string> CommsCsv(const AskedTimetable& table, const std::string& torch,
                                     int max_active_stages) {
  const std::optional<PyTorchVersion> version = PyTorchVersionNamed(torch);
  if (!version) {
    return absl::InvalidArgumentError(
        absl::StrCat("torch is '", torch, "'; expected '2.8' or '2.15'"));
  }
  if (table.shown && table.shown->table.placement.ranks() != table.table.placement.ranks())
    return NoCommsOfSharedStages();
  const absl::StatusOr<Timetable> lowered =
      LowerForPyTorch(table.table, {.version = *version, .max_active_stages = max_active_stages});
  if (!lowered.ok()) return lowered.status();
  return FormatTimetableCsv(*lowered, table.line_end);
}

std::vector<std::string> PlanFlagNames() {
  CLI::App app;
  PlanFlags flags;
  AddPlanFlags(app, &flags);
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

absl::StatusOr<PlanAnswer> AskPlan(const std::string& model, const Flags& words,
                                   const StopFunction& stop) {
  CLI::App app;
  PlanFlags flags;
  AddPlanFlags(app, &flags);
  if (absl::Status status = Parse(app, {model}, words); !status.ok()) return status;
  absl::StatusOr<PlanQuestion> question = ReadQuestion(flags);
  if (!question.ok()) return question.status();
  question->stop = stop;
  return AnswerQuestion(*question, {});
}

AskedTimetable TimetableOf(const Plan& plan) {
  DrawnStep drawn = DrawnStepOf(plan);
  return {.table = plan.timetable,
          .defects = {},
          .shown = ShownSchedule{.table = std::move(drawn.table),
                                 .costs = {plan.stage_costs, {}, /*seconds=*/true},
                                 .activation_limit = {},
                                 .run = std::move(drawn.run),
                                 .measured = {}}};
}

}  // namespace sluice::python
