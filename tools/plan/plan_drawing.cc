#include "tools/plan/plan_drawing.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/spec/units.h"
#include "schedules/counted.h"
#include "schedules/render/render.h"
#include "schedules/simulate/dealt_times.h"
#include "tools/plan/table_text.h"

namespace sluice {
namespace {

// The timetable with one row per rank, also where several ranks share a stage.
Timetable RowsOfRanks(const Plan& plan) {
  if (!plan.has_replicas()) return plan.timetable;
  std::vector<int> replicas;
  for (const PlanStage& stage : plan.stages) replicas.push_back(stage.replicas);
  return DrawnTable(DealtTimetable(plan.timetable, StageDeal(std::move(replicas), 1)));
}

std::string TitleOf(const PlanAnswer& answer) {
  const Plan& plan = answer.plan;
  const int devices = answer.context.DeviceCount(plan);
  const std::string on = answer.context.graph ? Counted(devices, "device")
                                              : fmt::format("{} x {}", devices, answer.device);
  // Of a file's name only what follows the last slash.
  const std::string& model = answer.context.model;
  const size_t slash = model.rfind('/');
  return fmt::format("{} on {}: {}, {}",
                     slash == std::string::npos ? model : model.substr(slash + 1), on,
                     plan.description, Counted(plan.micro_batches, "micro-batch"));
}

std::vector<std::string> FactsOf(const PlanAnswer& answer) {
  constexpr double kVisible = 0.001;  // of the step: seconds of four digits show it
  const Plan& plan = answer.plan;
  const PlanContext& context = answer.context;
  std::vector<std::string> facts;
  if (const std::string degrees = DegreesOf(context); !degrees.empty()) facts.push_back(degrees);
  facts.push_back(absl::StrCat("step ", FormatSeconds(plan.step_seconds)));
  // The sums of gradients and the updates come after what is drawn.
  if (plan.step_seconds > plan.simulation.makespan * (1 + kVisible)) {
    facts.push_back(
        absl::StrCat("until the last backward ends ", FormatSeconds(plan.simulation.makespan)));
  }
  if (const double tied = plan.tied_exchange_seconds(); tied > plan.step_seconds * kVisible)
    facts.push_back(absl::StrCat("exchange of tied gradients ", FormatSeconds(tied)));
  facts.push_back(absl::StrCat("bubble ", FormatShare(plan.bubble)));
  if (!context.graph) {
    facts.push_back(absl::StrCat(FormatCount(context.TokensPerSecond(plan)),
                                 context.seq == 1 ? " samples/s" : " tokens/s"));
    if (const auto mfu = context.Mfu(plan))
      facts.push_back(absl::StrCat("MFU ", FormatShare(*mfu)));
  }
  facts.push_back(plan.optimal
                      ? "proved optimal"
                      : absl::StrCat("within ", FormatShare(plan.gap()), " of the best possible"));
  return facts;
}

// What a rank is called where devices differ: "rank 3 \u00b7 h100". A name from a file may
// be of any length: as much of it is shown as leaves room for the bars of a narrow picture.
std::string NameOf(size_t rank, const std::string& kind) {
  constexpr int kLongest = 12;
  const std::string shown = fmt::format("{:.{}}", kind, kLongest);
  return absl::StrCat("rank ", rank, " \u00b7 ", shown, shown == kind ? "" : "\u2026");
}

std::string NoteOf(const PlanAnswer& answer, const std::vector<const PlanStage*>& stages) {
  Partition ranges;
  size_t operations = 0;
  for (const PlanStage* stage : stages) {
    operations += stage->layers.size();
    ranges.push_back({stage->layers.front(), stage->layers.back()});
  }
  if (!answer.context.graph) return LayersNote(ranges);
  return Counted(operations, "operation");
}

}  // namespace

DrawnStep DrawnStepOf(const Plan& plan) {
  return {.table = RowsOfRanks(plan), .run = plan.simulation};
}

std::string DrawPlan(const PlanAnswer& answer, const std::optional<std::string>& title, int width) {
  const Plan& plan = answer.plan;
  const DrawnStep drawn = DrawnStepOf(plan);
  std::vector<std::vector<const PlanStage*>> stages(drawn.table.rows.size());
  for (const PlanStage& stage : plan.stages) {
    for (int member = 0; member < stage.replicas; ++member)
      stages[stage.rank + member].push_back(&stage);
  }
  SvgOptions options{.title = title.value_or(TitleOf(answer)),
                     .facts = FactsOf(answer),
                     .width = width,
                     .seconds = true,
                     .rank_names = {},
                     .rank_notes = {},
                     .peak_name = "memory",
                     .peaks = {}};
  for (const RankDevices& devices : answer.context.rank_devices)
    options.rank_names.push_back(NameOf(options.rank_names.size(), devices.kind));
  for (const std::vector<const PlanStage*>& of_rank : stages) {
    options.rank_notes.push_back(NoteOf(answer, of_rank));
    options.peaks.push_back(
        FormatBytes(static_cast<double>(plan.peak_bytes[of_rank.front()->rank])));
  }
  return RenderSvg(drawn.run, drawn.table, options);
}

std::string LayersNote(const Partition& ranges) {
  constexpr size_t kLongest = 26;
  int layers = 0;
  std::string text;
  for (const LayerRange& range : ranges) {
    layers += range.size();
    absl::StrAppend(&text, text.empty() ? "" : ", ", FormatPartition({range}));
  }
  if (text.size() > kLongest) return fmt::format("{} layers in {}", layers, ranges.size());
  return absl::StrCat(layers == 1 ? "layer " : "layers ", text);
}

}  // namespace sluice
