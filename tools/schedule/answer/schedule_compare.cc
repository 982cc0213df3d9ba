#include "tools/schedule/answer/schedule_compare.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/where.h"
#include "models/spec/json_text.h"
#include "schedules/generators/catalogue.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/schedule/answer/schedule_report.h"
#include "tools/schedule/answer/schedule_sweep.h"
#include "tools/schedule/timetable/schedule_auto.h"
#include "tools/schedule/timetable/schedule_names.h"
#include "tools/schedule/timetable/schedule_source.h"
#include "tools/terminal.h"

namespace sluice {
namespace {

absl::StatusOr<Comparison> CompareOne(const std::string& name, const ScheduleQuestion& all) {
  const ScheduleQuestion asked = QuestionFor(name, all);
  if (name == kAuto) {
    absl::StatusOr<AutoAnswer> answer = AnswerAuto(asked);
    if (!answer.ok()) return answer.status();
    const bool cut = asked.choose_chunks && answer->best.table.placement.chunks() > 1;
    return Comparison{
        .table = std::move(answer->best.table), .run = std::move(answer->best.run), .cut = cut};
  }
  absl::StatusOr<Timetable> table = GenerateTable(name, asked);
  if (!table.ok()) return table.status();
  absl::StatusOr<PricedTimetable> priced = PriceTimetable(*std::move(table), asked);
  if (!priced.ok()) return priced.status();
  absl::StatusOr<Simulation> run = RunPriced(*priced);
  if (!run.ok()) return run.status();
  return Comparison{.table = std::move(priced->table), .run = *std::move(run)};
}

std::vector<std::string> NamesOf(const CompareQuestion& question) {
  if (!question.names.empty()) return question.names;
  std::vector<std::string> names;
  for (const CatalogueEntry& entry : Catalogue()) names.emplace_back(entry.name);
  names.emplace_back(kAuto);
  return names;
}

// Says each thing that is wrong once, with the schedules that are left out for it.
void PrintLeftOut(const std::vector<std::pair<absl::Status, std::vector<std::string>>>& failures) {
  for (const auto& [why, names] : failures) {
    PrintError(absl::Status(
        why.code(), absl::StrCat(why.message(), "; left out: ", absl::StrJoin(names, ", "))));
  }
}

// `status` of the schedule `name`, which its message says: what is wrong with a file of costs does
// not say for which of several schedules.
absl::Status NamingSchedule(const absl::Status& status, const std::string& name) {
  if (absl::StrContains(status.message(), name)) return status;
  return WithPrefix(absl::StrCat(name, ": "), status);
}

absl::StatusOr<std::vector<Comparison>> CompareAll(const CompareQuestion& question) {
  std::vector<Comparison> lines;
  std::vector<std::pair<absl::Status, std::vector<std::string>>> failures;
  for (const std::string& name : NamesOf(question)) {
    absl::StatusOr<Comparison> line = CompareOne(name, question.asked);
    if (line.ok()) {
      lines.push_back(*std::move(line));
      continue;
    }
    if (ExitCodeOf(line.status()) == kExitNoPlan) {
      lines.push_back({.table = {},
                       .run = {},
                       .does_not_fit = DoesNotFit{.why = std::string(line.status().message()),
                                                  .held = HeldActivationsOf(line.status())}});
      lines.back().table.name = name;
      continue;
    }
    if (!question.names.empty()) return NamingSchedule(line.status(), name);
    const auto same = std::find_if(failures.begin(), failures.end(), [&](const auto& failure) {
      return failure.first == line.status();
    });
    if (same == failures.end()) {
      failures.push_back({line.status(), {name}});
    } else {
      same->second.push_back(name);
    }
  }
  if (lines.empty()) return failures.front().first;
  PrintLeftOut(failures);
  return lines;
}

// OK unless none of the schedules fits.
absl::Status CheckAnyFits(const std::vector<Comparison>& lines) {
  const auto fits = [](const Comparison& line) { return !line.does_not_fit.has_value(); };
  if (std::any_of(lines.begin(), lines.end(), fits)) return absl::OkStatus();
  return WithExitCode(absl::ResourceExhaustedError(lines.front().does_not_fit->why), kExitNoPlan);
}

std::string FormatLines(const std::vector<Comparison>& lines, const ScheduleView& view) {
  if (view.format != ScheduleFormat::kJson) return ComparisonText(lines);
  return JsonText(ComparisonJson(lines, view.actions)) + "\n";
}

// Refuses what the sweep has no use for.
absl::Status CheckSweep(const CompareQuestion& question) {
  if (!question.names.empty()) {
    return absl::InvalidArgumentError(
        "--memory-sweep compares the whole catalogue with auto; leave the names out");
  }
  if (question.view.actions) {
    return absl::InvalidArgumentError(
        "--memory-sweep prints makespans, and no timetable whose actions --actions could print; "
        "leave --actions out");
  }
  if (question.asked.choose_chunks) {
    return absl::InvalidArgumentError(
        "--memory-sweep tries whole stages and stages cut in two where -v is not given; leave -v "
        "auto out, or give a number");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FormatSweep(const CompareQuestion& question) {
  if (absl::Status ok = CheckSweep(question); !ok.ok()) return ok;
  const absl::StatusOr<TradeOffCurve> curve = SweepTradeOff(question.asked);
  if (!curve.ok()) return curve.status();
  if (question.view.format == ScheduleFormat::kJson) return JsonText(TradeOffJson(*curve)) + "\n";
  if (question.view.format == ScheduleFormat::kSvg) return TradeOffSvg(*curve);
  return TradeOffText(*curve, OutputColumns());
}

absl::Status WriteSweep(const CompareQuestion& question) {
  const absl::StatusOr<std::string> text = FormatSweep(question);
  return text.ok() ? WriteOutput(question.view.output, *text) : text.status();
}

}  // namespace

absl::Status CompareSchedules(const CompareQuestion& question) {
  if (question.memory_sweep) return WriteSweep(question);
  if (question.view.format == ScheduleFormat::kSvg) {
    return absl::InvalidArgumentError(
        "compare draws only with --memory-sweep; 'sluice schedule show' draws one timetable");
  }
  if (absl::Status ok = CheckTaken(NamesOf(question), question.asked); !ok.ok()) return ok;
  const absl::StatusOr<std::vector<Comparison>> lines = CompareAll(question);
  if (!lines.ok()) return lines.status();
  absl::Status written = WriteOutput(question.view.output, FormatLines(*lines, question.view));
  written.Update(CheckAnyFits(*lines));
  return written;
}

}  // namespace sluice
