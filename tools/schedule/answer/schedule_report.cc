#include "tools/schedule/answer/schedule_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedules/render/render_common.h"
#include "schedules/simulate/critical_path.h"
#include "schedules/sum_order.h"

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

// Columns of `schedule compare`; of a schedule that does not fit, those from kMakespan to kGap are
// one.
enum Column : size_t { kName, kChunks, kMakespan, kBubble, kSpanBubble, kBound, kGap, kPeak };
constexpr char kDoesNotFit[] = "does not fit";

using Cells = std::vector<std::string>;

// The first column aligned to the left, the others to the right; columns as wide as they need.
std::string AlignedTable(const std::vector<Cells>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const Cells& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      if (row[c] != kDoesNotFit) widths[c] = std::max(widths[c], row[c].size());
    }
  }
  std::string text;
  for (const Cells& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      size_t width = widths[c];
      const std::string& cell = row[c];
      if (cell == kDoesNotFit) {
        while (c < kGap) width += 2 + widths[++c];
      }
      const std::string pad(width - cell.size(), ' ');
      absl::StrAppend(&text, c == kName ? "" : "  ", c == kName ? cell + pad : pad + cell);
    }
    text += "\n";
  }
  return text;
}

Cells CellsOf(const Timetable& table, const Simulation& run) {
  constexpr int kDigits = 6;  // of times; JSON has all
  return {
      table.name,
      absl::StrCat(table.placement.chunks()),
      FormatShort(run.makespan, kDigits),
      FormatPercent(run.bubble),
      FormatPercent(run.span_bubble),
      FormatShort(run.lower_bound, kDigits),
      FormatGap(run.gap),
      absl::StrCat(*std::max_element(run.peak_activations.begin(), run.peak_activations.end()))};
}

Cells CellsOf(const Comparison& line) {
  if (!line.does_not_fit.has_value()) {
    Cells cells = CellsOf(line.table, line.run);
    if (line.cut) cells[kChunks].insert(0, "/");
    return cells;
  }
  const HeldActivations& held = line.does_not_fit->held;
  Cells cells(kPeak + 1);
  cells[kName] = line.table.name;
  cells[kChunks] = held.chunks > 0 ? absl::StrCat(held.chunks) : "-";
  cells[kMakespan] = kDoesNotFit;
  cells[kPeak] = held.peak > 0 ? absl::StrCat(held.peak) : "-";
  return cells;
}

ordered_json DoesNotFitJson(const std::string& name, const DoesNotFit& schedule) {
  ordered_json json = {{"schedule", name}};
  for (const char* none :
       {"ranks", "stages", "chunks", "micro_batches", "makespan", "bubble", "span", "span_bubble",
        "lower_bound", "gap", "peak_activations", "work", "utilisation", "critical_path"}) {
    json[none] = nullptr;
  }
  if (schedule.held.chunks > 0) json["chunks"] = schedule.held.chunks;
  json["fits"] = false;
  json["why"] = schedule.why;
  return json;
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
  std::vector<Cells> rows = {
      {"schedule", "chunks", "makespan", "bubble", "span bubble", "bound", "gap", "peak"}};
  bool several_chunks = false, cut = false, two_copies = false;
  for (const Comparison& line : lines) {
    const Placement& placement = line.table.placement;
    const bool fits = !line.does_not_fit.has_value();
    two_copies |= fits && placement.copies() > 1;
    several_chunks |= fits && !line.cut && placement.copies() == 1 && placement.chunks() > 1;
    cut |= line.cut;
    rows.push_back(CellsOf(line));
  }
  return absl::StrCat(
      AlignedTable(rows),
      "\nbubble: idle share of the makespan; span bubble: of the longest rank's span\n"
      "bound: no timetable takes less; gap: how far the makespan is above that\n"
      "peak: most (stage, micro-batch) activations that a rank holds\n",
      several_chunks ? "costs are per stage: with v chunks a rank does v times the work\n" : "",
      cut ? "/v: the stage of a rank is cut into v, which share its costs; its peak counts these\n"
          : "",
      two_copies ? "two copies of the model (chimera): each has half of the micro-batches\n" : "");
}

ordered_json ComparisonJson(const std::vector<Comparison>& lines, bool actions) {
  ordered_json list = ordered_json::array();
  for (const Comparison& line : lines) {
    if (line.does_not_fit.has_value()) {
      list.push_back(DoesNotFitJson(line.table.name, *line.does_not_fit));
      continue;
    }
    list.push_back(SimulationJson(line.run, line.table, actions));
    list.back()["fits"] = true;
  }
  return list;
}

}  // namespace sluice
