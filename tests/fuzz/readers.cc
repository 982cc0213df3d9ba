#include "readers.h"

#include "absl/strings/match.h"
#include "promises.h"
#include "schedules/check/validate.h"
#include "schedules/csv.h"
#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"
#include "schedules/simulate/simulate.h"
#include "tools/schedule/question/schedule_costs_json.h"

namespace sluice {
namespace {

constexpr int kDefects = 20;

void RunSoundTable(const Timetable& table) {
  const StageCosts costs = StageCosts::Uniform(table.placement.stages(), 1, 1, 1, 0.5);
  const auto run = Simulate(table, costs);
  Require(run.ok(), "a sound table runs");
  if (table.lowered()) return;
  const auto lowered = LowerTimetable(table);
  Require(lowered.ok(), "a sound table can be lowered");
  Require(FindDefects(*lowered, kDefects).empty(), "a lowered table is sound");
  Require(Simulate(*lowered, costs)->makespan == run->makespan, "lowering costs no time");
}

}  // namespace

void TryTimetableCsv(absl::string_view text) {
  const auto table = ParseTimetableCsv(text, kFuzzedFile);
  if (!table.ok()) return RequirePlace(table.status());
  const auto again = ParseTimetableCsv(FormatTimetableCsv(*table), kFuzzedFile);
  Require(again.ok() && again->rows == table->rows, "a table comes back from its CSV");
  if (FindDefects(*table, kDefects).empty()) RunSoundTable(*table);
}

void TryCostsJson(absl::string_view text) {
  static const Timetable& table = *new Timetable(*GenerateSchedule("1f1b", {3, 2}));
  const auto file = CostsFile::Parse(std::string(text), kFuzzedFile);
  if (!file.ok()) return RequirePlace(file.status());
  const auto costs = file->On(table.placement);
  if (!costs.ok()) return RequirePlace(costs.status());
  const auto run = Simulate(table, costs->stages);
  if (!run.ok()) return Require(absl::StrContains(run.status().message(), "finite"), "costs run");
  Require(run->makespan >= 0 && run->lower_bound <= run->makespan, "the bound is a bound");
}

}  // namespace sluice
