#include "tools/schedule/answer/schedule_page.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedules/simulate/simulate.h"
#include "tools/schedule/timetable/measured_trace.h"
#include "tools/schedule/timetable/schedule_auto.h"
#include "tools/schedule/timetable/schedule_names.h"
#include "tools/schedule/timetable/schedule_source.h"

namespace sluice {
namespace {

// `priced` as it is shown; `measured` and `given` as for TakeMeasured.
absl::StatusOr<ShownSchedule> Shown(PricedTimetable priced, const std::string& measured,
                                    const GivenCosts& given) {
  ShownSchedule shown{.table = std::move(priced.table),
                      .costs = std::move(priced.costs),
                      .activation_limit = priced.activation_limit,
                      .run = {},
                      .measured = {}};
  if (absl::Status status = TakeMeasured(measured, given, &shown); !status.ok()) return status;
  absl::StatusOr<Simulation> run = Simulate(shown.table, shown.costs.stages);
  if (!run.ok()) return run.status();
  shown.run = *std::move(run);
  // With the durations of the measured run as costs, what was proved for other costs says nothing.
  if (!shown.fitted) UseBound(priced.lower_bound, shown.run);
  return shown;
}

// What --against asks for: the size of `first` and, where no flag says what stages cost, what they
// cost there, so that both are in one unit.
ScheduleQuestion QuestionBeside(const ShownSchedule& first, const ShowQuestion& question) {
  ScheduleQuestion asked = QuestionFor(question.against, question.asked);
  if (!NamesFile(question.against)) {
    if (!asked.ranks.has_value()) asked.ranks = first.table.placement.ranks();
    if (!asked.micro_batches.has_value()) asked.micro_batches = first.table.micro_batches;
  }
  if (!asked.costs.given() && first.costs.seconds) {
    asked.costs =
        GivenCosts::FromStages(first.costs, first.fitted ? question.measured : question.what);
  }
  return asked;
}

// The schedule of --against, beside `first`. A named schedule or a file has its own placement, a
// file its own number of chunks, and a plan its own costs.
absl::StatusOr<PricedTimetable> OtherTimetable(const ShownSchedule& first,
                                               const ShowQuestion& question) {
  const std::string& name = question.against;
  ScheduleQuestion asked = QuestionBeside(first, question);
  // Only the first one can have two copies of the model.
  if (name != kAuto || asked.placement == "bidirectional") asked.placement.clear();
  if (name == kAuto) return AutoTimetable(asked);
  if (NamesFile(name)) asked.chunks.reset();
  absl::StatusOr<FoundTable> found = FindTable(name, asked);
  if (!found.ok()) return found.status();
  const bool own = found->costs.given() && !question.asked.costs.given();
  if (own) asked.costs = found->costs;
  absl::StatusOr<PricedTimetable> other = PriceTimetable(std::move(found->table), asked);
  if (!other.ok() || other->costs.seconds == first.costs.seconds) return other;
  return absl::InvalidArgumentError(absl::StrCat(
      "the costs of ", name, " are in seconds, and ", question.what, " has no costs; show ", name,
      " --against ", question.what, ", or give --cost for both"));
}

HtmlPanel PanelOf(const ShownSchedule& shown) {
  HtmlPanel panel;
  panel.table = &shown.table;
  panel.run = &shown.run;
  panel.costs = &shown.costs.stages;
  panel.activation_limit = shown.activation_limit;
  panel.byte_limit = shown.costs.device_memory;
  panel.measured = shown.measured;
  panel.fitted = shown.fitted;
  return panel;
}

}  // namespace

absl::Status TakeMeasured(const std::string& measured, const GivenCosts& given,
                          ShownSchedule* shown) {
  if (measured.empty()) return absl::OkStatus();
  absl::StatusOr<MeasuredRun> run = ReadMeasuredRun(measured, shown->table);
  if (!run.ok()) return run.status();
  shown->fitted = !given.given();
  if (shown->fitted) {
    shown->costs.stages = FittedCosts(*run, shown->table.placement);
    shown->costs.seconds = true;
  }
  shown->measured = *std::move(run);
  return absl::OkStatus();
}

std::string PageOf(const std::deque<ShownSchedule>& shown) {
  std::vector<HtmlPanel> panels;
  panels.reserve(shown.size());
  for (const ShownSchedule& each : shown) panels.push_back(PanelOf(each));
  // The times of a measured run are in seconds.
  const bool seconds = std::any_of(shown.begin(), shown.end(), [](const ShownSchedule& each) {
    return each.costs.seconds || each.measured.has_value();
  });
  return RenderHtml(panels, {.seconds = seconds});
}

absl::StatusOr<std::string> SchedulePage(const PricedTimetable& first,
                                         const ShowQuestion& question) {
  std::deque<ShownSchedule> all;
  absl::StatusOr<ShownSchedule> shown = Shown(first, question.measured, question.asked.costs);
  if (!shown.ok()) return shown.status();
  const absl::Status fits = CheckActivationLimit(first.table, shown->run, first.activation_limit);
  if (!fits.ok()) return fits;
  all.push_back(*std::move(shown));
  if (!question.against.empty()) {
    absl::StatusOr<PricedTimetable> other = OtherTimetable(all.front(), question);
    if (!other.ok()) return other.status();
    // The measured run is that of the first schedule.
    absl::StatusOr<ShownSchedule> second =
        Shown(*std::move(other), /*measured=*/"", question.asked.costs);
    if (!second.ok()) return second.status();
    all.push_back(*std::move(second));
  }
  return PageOf(all);
}

}  // namespace sluice
