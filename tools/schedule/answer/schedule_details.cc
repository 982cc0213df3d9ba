#include "tools/schedule/answer/schedule_details.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/spec/json_text.h"
#include "partitioner/planning/question/other_trainers.h"
#include "schedules/generators/catalogue.h"
#include "schedules/pytorch.h"
#include "tools/files.h"
#include "tools/schedule/answer/schedule_list.h"
#include "tools/schedule/answer/schedule_show.h"
#include "tools/schedule/timetable/schedule_auto.h"
#include "tools/schedule/timetable/schedule_names.h"
#include "tools/schedule/timetable/schedule_source.h"
#include "tools/terminal.h"

namespace sluice {
namespace {

// The size of the example: its drawing fits 80 columns, and Megatron-LM interleaves it.
constexpr int kRanks = 4, kMicroBatches = 8;
constexpr int kLeastColumns = 50;

// Who trains by a schedule, and why the others do not.
struct Runners {
  std::vector<std::string> run = {"sluice"};
  std::vector<std::pair<std::string, std::string>> refuse;  // name, reason

  void Add(const std::string& name, const std::string& why_not) {
    if (why_not.empty()) {
      run.push_back(name);
    } else {
      refuse.emplace_back(name, why_not);
    }
  }
};

ScheduleQuestion ExampleQuestion() {
  ScheduleQuestion asked;
  asked.ranks = kRanks;
  asked.micro_batches = kMicroBatches;
  return asked;
}

absl::StatusOr<Timetable> ExampleTable(const std::string& name) {
  if (name == kAuto) {
    absl::StatusOr<PricedTimetable> best = AutoTimetable(ExampleQuestion());
    if (!best.ok()) return best.status();
    return std::move(best->table);
  }
  absl::StatusOr<FoundTable> found = FindTable(name, ExampleQuestion());
  if (!found.ok()) return found.status();
  return std::move(found->table);
}

absl::StatusOr<Runners> FindRunners(const std::string& name) {
  const absl::StatusOr<Timetable> table = ExampleTable(name);
  if (!table.ok()) return table.status();
  Runners runners;
  runners.Add("PyTorch", WhyNotForPyTorch(*table));
  const bool megatron = CheckForMegatron(name, kRanks, kMicroBatches).ok();
  runners.Add("Megatron-LM", megatron ? "" : "it has 1f1b and interleaved");
  return runners;
}

// The flags of `schedule show` that change this schedule, beside -p and -m.
std::string TakenFlags(const CatalogueEntry& entry) {
  std::vector<std::string> flags;
  if (entry.chunk_step > 0) {
    flags.push_back(entry.chunk_step == 1
                        ? absl::StrCat("--chunks (usually ", entry.default_chunks, ")")
                        : absl::StrCat("--chunks (multiples of ", entry.chunk_step, ")"));
  }
  if (entry.takes_group) flags.emplace_back("--group");
  if (entry.takes_costs) flags.emplace_back("--cost or --costs, --memory-limit");
  if (entry.updates == WeightUpdates::kDoubleBuffered) flags.emplace_back("--update-every");
  return absl::StrJoin(flags, ", ");
}

absl::StatusOr<std::string> DetailsText(const CatalogueEntry& entry, const Runners& runners,
                                        int columns) {
  std::string text;
  AppendEntry(entry, columns, text);
  if (const std::string flags = TakenFlags(entry); !flags.empty()) {
    AppendFact("flags", flags, columns, text);
  }
  AppendFact("runs in", absl::StrJoin(runners.run, ", "), columns, text);
  for (const auto& [name, reason] : runners.refuse) {
    AppendFact("not in", absl::StrCat(name, ": ", reason), columns, text);
  }
  const absl::StatusOr<std::string> drawing = FormatSchedule(
      {.what = entry.name, .asked = ExampleQuestion(), .view = {}, .against = {}, .measured = {}});
  if (!drawing.ok()) return drawing.status();
  return absl::StrCat(text, "\n", FormulaLegend(columns), "\n", *drawing);
}

std::string DetailsJson(const CatalogueEntry& entry, const Runners& runners) {
  nlohmann::ordered_json json = EntryJson(entry);
  json["runs_in"] = runners.run;
  json["not_in"] = nlohmann::ordered_json::object();
  for (const auto& [name, reason] : runners.refuse) json["not_in"][name] = reason;
  return JsonText(json, 2) + "\n";
}

}  // namespace

absl::Status DescribeSchedule(const std::string& name, bool json) {
  const absl::StatusOr<CatalogueEntry> entry = FindEntry(name);
  if (!entry.ok()) return entry.status();
  const absl::StatusOr<Runners> runners = FindRunners(name);
  if (!runners.ok()) return runners.status();
  if (json) return WriteOutput("", DetailsJson(*entry, *runners));
  const absl::StatusOr<std::string> text =
      DetailsText(*entry, *runners, std::max(OutputColumns(), kLeastColumns));
  return text.ok() ? WriteOutput("", *text) : text.status();
}

}  // namespace sluice
