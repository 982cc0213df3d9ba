#include "tools/schedule/answer/schedule_show.h"

#include <iostream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/spec/json_text.h"
#include "schedules/csv.h"
#include "schedules/lower.h"
#include "schedules/render/render.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/schedule/answer/schedule_dealt.h"
#include "tools/schedule/answer/schedule_page.h"
#include "tools/schedule/answer/schedule_report.h"
#include "tools/schedule/timetable/schedule_auto.h"
#include "tools/schedule/timetable/schedule_names.h"
#include "tools/schedule/timetable/schedule_source.h"
#include "tools/terminal.h"

namespace sluice {
namespace {

// Whether the format shows only the table, which needs no costs unless memory is limited.
bool IsCsv(ScheduleFormat format) {
  return format == ScheduleFormat::kCsv || format == ScheduleFormat::kCommsCsv;
}

// PyTorch's files are also for what PyTorch cannot run: sluice reads them.
absl::StatusOr<Timetable> LowerForCsv(const Timetable& table, const std::string& not_for_pytorch,
                                      const PyTorchOptions& options) {
  if (not_for_pytorch.empty()) return LowerForPyTorch(table, options);
  return table.lowered() ? table : LowerTimetable(table);
}

absl::StatusOr<std::string> FormatCsv(const Timetable& table, LineEnd line_end,
                                      const ScheduleView& view) {
  const std::string not_for_pytorch = WhyNotForPyTorch(table);
  if (!not_for_pytorch.empty()) {
    std::cerr << "sluice: warning: PyTorch cannot run this timetable: " << not_for_pytorch << "\n";
  }
  if (view.format == ScheduleFormat::kCsv) return FormatTimetableCsv(table, line_end);
  const absl::StatusOr<Timetable> lowered = LowerForCsv(table, not_for_pytorch, view.pytorch);
  if (!lowered.ok()) return lowered.status();
  return FormatTimetableCsv(*lowered, line_end);
}

void WarnOfMemory(const ScheduleCosts& costs, const Simulation& run) {
  for (size_t rank = 0; rank < costs.device_memory.size() && rank < run.peak_bytes.size(); ++rank) {
    if (run.peak_bytes[rank] <= costs.device_memory[rank]) continue;
    std::cerr << "sluice: warning: rank " << rank << " holds up to " << run.peak_bytes[rank]
              << " bytes of activations; its device has " << costs.device_memory[rank] << "\n";
  }
}

// `run` of `table` in a format that shows times, except HTML.
std::string FormatRun(const Simulation& run, const Timetable& table, const ScheduleCosts& costs,
                      const ScheduleView& view) {
  WarnOfMemory(costs, run);
  switch (view.format) {
    case ScheduleFormat::kJson:
      return JsonText(SimulationJson(run, table, view.actions)) + "\n";
    case ScheduleFormat::kSvg:
      return RenderSvg(
          run, table,
          {.title = view.title, .width = view.width.value_or(0), .seconds = costs.seconds});
    case ScheduleFormat::kTrace:
      return RenderTrace(run, table, &costs.stages);
    default:
      break;
  }
  const bool to_terminal = view.output.empty();
  return RenderText(run, table,
                    {.columns = view.width.value_or(OutputColumns()),
                     .colour = to_terminal && WantsColour(),
                     .unicode = ShowsUnicode(),
                     .seconds = costs.seconds});
}

absl::StatusOr<std::string> FormatPriced(const PricedTimetable& priced,
                                         const ShowQuestion& question) {
  if (question.view.format == ScheduleFormat::kHtml) return SchedulePage(priced, question);
  const absl::StatusOr<Simulation> run = RunPriced(priced);
  if (!run.ok()) return run.status();
  return FormatRun(*run, priced.table, priced.costs, question.view);
}

// A file has no place for the ranks of a stage.
void NoteRows(const std::vector<int>& members) {
  PrintNotice(absl::StrCat(
      "note: the CSV has a row for each of ", members.size(), " stages, not for each of ",
      std::accumulate(members.begin(), members.end(), 0),
      " ranks; who reads it must be given --stage-replicas ", absl::StrJoin(members, ",")));
}

absl::StatusOr<std::string> FormatDealt(const ShowQuestion& question) {
  const absl::StatusOr<DealtSchedule> dealt = DealSchedule(question);
  if (!dealt.ok()) return dealt.status();
  const ShownSchedule& shown = dealt->shown;
  if (question.view.format == ScheduleFormat::kCsv) {
    NoteRows(question.asked.stage_members);
    return FormatTimetableCsv(dealt->table, dealt->line_end);
  }
  if (question.view.format == ScheduleFormat::kHtml) return PageOf({shown});
  return FormatRun(shown.run, shown.table, shown.costs, question.view);
}

absl::StatusOr<std::string> FormatAuto(const ShowQuestion& question,
                                       const ScheduleQuestion& asked) {
  const absl::StatusOr<PricedTimetable> best = AutoTimetable(asked);
  if (!best.ok()) return best.status();
  if (IsCsv(question.view.format)) return FormatCsv(best->table, LineEnd::kLf, question.view);
  return FormatPriced(*best, question);
}

absl::StatusOr<std::string> FormatNamed(const ShowQuestion& question,
                                        const ScheduleQuestion& asked) {
  absl::StatusOr<FoundTable> found = FindTable(question.what, asked);
  if (!found.ok()) return found.status();
  const bool csv = IsCsv(question.view.format);
  if (csv && !asked.memory_limit.has_value()) {
    return FormatCsv(found->table, found->line_end, question.view);
  }
  const ScheduleQuestion with_costs = WithCostsOf(*found, asked);
  const absl::StatusOr<PricedTimetable> priced =
      PriceTimetable(std::move(found->table), with_costs);
  if (!priced.ok()) return priced.status();
  if (!csv) return FormatPriced(*priced, question);
  // The costs decide what a rank holds at once.
  if (absl::Status fits = RunPriced(*priced).status(); !fits.ok()) return fits;
  return FormatCsv(priced->table, found->line_end, question.view);
}

}  // namespace

absl::StatusOr<std::string> FormatSchedule(const ShowQuestion& question) {
  if (!question.asked.stage_members.empty()) return FormatDealt(question);
  // With two schedules on one page, each gets the options that it understands.
  ScheduleQuestion asked = question.asked;
  if (!question.against.empty()) {
    if (absl::Status ok = CheckTaken({question.what, question.against}, asked); !ok.ok()) return ok;
    asked = QuestionFor(question.what, std::move(asked));
  }
  return question.what == kAuto ? FormatAuto(question, asked) : FormatNamed(question, asked);
}

absl::Status ShowSchedule(const ShowQuestion& question) {
  const absl::StatusOr<std::string> text = FormatSchedule(question);
  return text.ok() ? WriteOutput(question.view.output, *text) : text.status();
}

}  // namespace sluice
