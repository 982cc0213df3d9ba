#include "tools/schedule/answer/schedule_compare.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "schedules/generators/catalogue.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/schedule/answer/schedule_report.h"
#include "tools/schedule/answer/schedule_sweep.h"
#include "tools/schedule/timetable/schedule_auto.h"
#include "tools/schedule/timetable/schedule_source.h"
#include "tools/terminal.h"

namespace sluice {
namespace {

absl::StatusOr<Comparison> CompareOne(const std::string& name, const ScheduleQuestion& asked) {
  if (name == kAuto) {
    absl::StatusOr<AutoAnswer> answer = AnswerAuto(asked);
    if (!answer.ok()) return answer.status();
    return Comparison{std::move(answer->best.table), std::move(answer->best.run)};
  }
  absl::StatusOr<Timetable> table = GenerateTable(name, QuestionFor(name, asked));
  if (!table.ok()) return table.status();
  absl::StatusOr<PricedTimetable> priced = PriceTimetable(*std::move(table), asked);
  if (!priced.ok()) return priced.status();
  absl::StatusOr<Simulation> run = RunPriced(*priced);
  if (!run.ok()) return run.status();
  return Comparison{std::move(priced->table), *std::move(run)};
}

std::vector<std::string> NamesOf(const CompareQuestion& question) {
  if (!question.names.empty()) return question.names;
  std::vector<std::string> names;
  for (const CatalogueEntry& entry : Catalogue()) names.emplace_back(entry.name);
  names.emplace_back(kAuto);
  return names;
}

absl::StatusOr<std::vector<Comparison>> CompareAll(const CompareQuestion& question) {
  std::vector<Comparison> lines;
  absl::Status first_failure;
  for (const std::string& name : NamesOf(question)) {
    absl::StatusOr<Comparison> line = CompareOne(name, question.asked);
    if (line.ok()) {
      lines.push_back(*std::move(line));
      continue;
    }
    if (!question.names.empty()) return line.status();
    first_failure.Update(line.status());
    if (!lines.empty()) PrintError(line.status());
  }
  if (lines.empty()) return first_failure;
  return lines;
}

std::string FormatLines(const std::vector<Comparison>& lines, const ScheduleView& view) {
  if (view.format != ScheduleFormat::kJson) return ComparisonText(lines);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [table, run] : lines) list.push_back(SimulationJson(run, table, view.actions));
  return list.dump() + "\n";
}

absl::StatusOr<std::string> FormatSweep(const CompareQuestion& question) {
  if (!question.names.empty()) {
    return absl::InvalidArgumentError(
        "--memory-sweep compares the whole catalogue with auto; leave the names out");
  }
  const absl::StatusOr<TradeOffCurve> curve = SweepTradeOff(question.asked);
  if (!curve.ok()) return curve.status();
  if (question.view.format == ScheduleFormat::kJson) return TradeOffJson(*curve).dump() + "\n";
  if (question.view.format == ScheduleFormat::kSvg) return TradeOffSvg(*curve);
  return TradeOffText(*curve, OutputColumns());
}

absl::StatusOr<std::string> FormatAnswer(const CompareQuestion& question) {
  if (question.memory_sweep) return FormatSweep(question);
  if (question.view.format == ScheduleFormat::kSvg) {
    return absl::InvalidArgumentError(
        "compare draws only with --memory-sweep; 'sluice schedule show' draws one timetable");
  }
  const absl::StatusOr<std::vector<Comparison>> lines = CompareAll(question);
  if (!lines.ok()) return lines.status();
  return FormatLines(*lines, question.view);
}

}  // namespace

absl::Status CompareSchedules(const CompareQuestion& question) {
  const absl::StatusOr<std::string> text = FormatAnswer(question);
  return text.ok() ? WriteOutput(question.view.output, *text) : text.status();
}

}  // namespace sluice
