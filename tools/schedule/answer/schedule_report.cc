#include "tools/schedule/answer/schedule_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedules/render/render_common.h"
#include "schedules/simulate/critical_path.h"
#include "schedules/sum_order.h"
#include "tools/schedule/timetable/schedule_auto.h"

namespace sluice {
namespace {

using nlohmann::ordered_json;

ordered_json ActionJson(const TimedAction& timed) {
  const Action& action = timed.action;
  ordered_json json = {{"op", OpName(action.op)}, {"stage", action.stage}};
  if (action.micro_batch == Action::kNoMicroBatch) {
    json["micro_batch"] = nullptr;
  } else {
    json["micro_batch"] = action.micro_batch;
  }
  json["start"] = timed.start;
  json["end"] = timed.end;
  return json;
}

ordered_json RowJson(const std::vector<TimedAction>& row) {
  ordered_json actions = ordered_json::array();
  for (const TimedAction& timed : row) {
    if (!RunsNothing(timed.action.op)) actions.push_back(ActionJson(timed));
  }
  return actions;
}

// The first column aligned to the left, the others to the right; columns as wide as they need.
std::string AlignedTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string pad(widths[c] - row[c].size(), ' ');
      absl::StrAppend(&text, c == 0 ? "" : "  ", c == 0 ? row[c] + pad : pad + row[c]);
    }
    text += "\n";
  }
  return text;
}

}  // namespace

ordered_json SimulationJson(const Simulation& run, const Timetable& table, bool actions) {
  ordered_json json = {{"schedule", table.name},
                       {"ranks", table.placement.ranks()},
                       {"stages", table.placement.stages()},
                       {"chunks", table.placement.chunks()},
                       {"micro_batches", table.micro_batches},
                       {"makespan", run.makespan},
                       {"bubble", run.bubble},
                       {"span", run.span},
                       {"span_bubble", run.span_bubble},
                       {"lower_bound", run.lower_bound},
                       {"gap", run.gap},
                       {"peak_activations", run.peak_activations},
                       {"work", run.work},
                       {"utilisation", run.utilisation}};
  if (!run.peak_bytes.empty()) json["peak_bytes"] = run.peak_bytes;
  json["critical_path"] = RowJson(run.critical_path);
  for (size_t i = 0; i < run.critical_path.size(); ++i) {
    json["critical_path"][i]["why"] = CauseName(run.critical_path_why[i]);
  }
  if (!actions) return json;
  ordered_json rows = ordered_json::array();
  for (const auto& row : run.rows) rows.push_back(RowJson(row));
  json["rank_actions"] = std::move(rows);
  return json;
}

ordered_json DefectsJson(const std::string& file, const Timetable& table,
                         const std::vector<Defect>& defects) {
  ordered_json list = ordered_json::array();
  for (const Defect& defect : defects) {
    list.push_back({{"rank", defect.rank},
                    {"position", defect.position},
                    {"action", defect.action},
                    {"message", defect.message}});
  }
  ordered_json json = {{"file", file}, {"sound", defects.empty()}, {"defects", std::move(list)}};
  if (defects.empty()) json["sum_order"] = SumOrder::Of(table).ToString();
  return json;
}

std::string ComparisonText(const std::vector<Comparison>& lines) {
  constexpr int kDigits = 6;  // of times; JSON has all
  std::vector<std::vector<std::string>> rows = {
      {"schedule", "chunks", "makespan", "bubble", "span bubble", "bound", "gap", "peak"}};
  bool several_chunks = false;
  for (const auto& [table, run] : lines) {
    several_chunks |= table.placement.chunks() > 1;
    rows.push_back({table.name, absl::StrCat(table.placement.chunks()),
                    FormatShort(run.makespan, kDigits), FormatPercent(run.bubble),
                    FormatPercent(run.span_bubble), FormatShort(run.lower_bound, kDigits),
                    FormatPercent(run.gap),
                    absl::StrCat(*std::max_element(run.peak_activations.begin(),
                                                   run.peak_activations.end()))});
  }
  return absl::StrCat(
      AlignedTable(rows),
      "\nbubble: idle share of the makespan; span bubble: of the longest rank's span\n"
      "bound: no timetable takes less; gap: how far the makespan is above that\n"
      "peak: most (stage, micro-batch) activations that a rank holds\n",
      several_chunks ? "costs are per stage: with v chunks a rank does v times the work\n" : "");
}

}  // namespace sluice
