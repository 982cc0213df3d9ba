#include "readers.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "schedules/catalogue.h"
#include "schedules/csv.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"
#include "schedules/validate.h"
#include "tools/schedule_costs_json.h"

namespace sluice {
namespace {

constexpr char kName[] = "fuzz.input";
constexpr int kDefects = 20;

void Require(bool kept, const char* promise) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

// "fuzz.input: line 1, column 7: ..." and nothing that a terminal could choke on.
void RequirePlace(const absl::Status& error) {
  Require(error.code() == absl::StatusCode::kInvalidArgument, "bad input is InvalidArgument");
  const absl::string_view message = error.message();
  Require(absl::StartsWith(message, kName), "an error names its file");
  Require(absl::StrContains(message, "line ") && absl::StrContains(message, "column "),
          "an error has a line and a column");
}

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
  const auto table = ParseTimetableCsv(text, kName);
  if (!table.ok()) return RequirePlace(table.status());
  const auto again = ParseTimetableCsv(FormatTimetableCsv(*table), kName);
  Require(again.ok() && again->rows == table->rows, "a table comes back from its CSV");
  if (FindDefects(*table, kDefects).empty()) RunSoundTable(*table);
}

void TryCostsJson(absl::string_view text) {
  static const Timetable& table = *new Timetable(*GenerateSchedule("1f1b", {3, 2}));
  const auto costs = ParseCostsJson(text, kName, table.placement);
  if (!costs.ok()) return RequirePlace(costs.status());
  const auto run = Simulate(table, costs->stages);
  if (!run.ok()) return Require(absl::StrContains(run.status().message(), "finite"), "costs run");
  Require(run->makespan >= 0 && run->lower_bound <= run->makespan, "the bound is a bound");
}

}  // namespace sluice
