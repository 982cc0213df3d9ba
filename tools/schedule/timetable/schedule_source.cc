#include "tools/schedule/timetable/schedule_source.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "models/files/positioned_file.h"
#include "partitioner/planning/file/plan_file.h"
#include "schedules/check/validate.h"
#include "schedules/counted.h"
#include "schedules/csv.h"
#include "schedules/generators/catalogue.h"
#include "schedules/generators/recompute_ahead.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/flag_values.h"
#include "tools/schedule/timetable/schedule_names.h"

namespace sluice {
namespace {

// The largest number of stages in a table.
constexpr int kMostRanksWithCosts = 1 << 16;
// The most ranks that all stages together may have.
constexpr int kMostDealtRanks = 1024;

absl::StatusOr<ScheduleRequest> RequestOf(const ScheduleQuestion& asked,
                                          const CatalogueEntry& entry) {
  if (!asked.ranks.has_value() || !asked.micro_batches.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule ", entry.name,
                     " needs -p/--ranks and -m/--micro-batches, as in: sluice schedule show ",
                     entry.name, " -p 4 -m 8"));
  }
  if (absl::Status ok = CheckTakes(entry, asked); !ok.ok()) return ok;
  ScheduleRequest request{*asked.ranks, *asked.micro_batches,
                          asked.chunks.value_or(entry.default_chunks)};
  if (asked.group.has_value()) request.group = *asked.group;
  if (asked.update_every.has_value()) request.update_every = *asked.update_every;
  return request;
}

// The placement that --placement calls `name`, for the stages and ranks of `table`.
absl::StatusOr<Placement> NamedPlacement(const std::string& name, const Timetable& table) {
  const int ranks = static_cast<int>(table.rows.size());
  const int stages = table.placement.stages();
  if (name == "bidirectional") {
    if (stages == 2 * ranks) return Placement::Bidirectional(ranks);
    return absl::InvalidArgumentError(
        absl::StrCat("--placement bidirectional: two copies of the model on ",
                     Counted(ranks, "rank"), " have ", 2 * ranks, " stages, not ", stages));
  }
  if (stages % ranks != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--placement ", name, ": ", Counted(stages, "stage"),
                     " do not spread evenly over ", Counted(ranks, "rank")));
  }
  return UsualPlacement(name, ranks, stages / ranks);
}

absl::Status CheckCount(const char* what, const std::optional<int>& asked, int found) {
  if (!asked.has_value() || *asked == found) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " ", *asked, " was asked for, but the file has ", found));
}

// A generated table has the placement of its schedule; --placement may only repeat it.
absl::Status CheckPlacement(const std::string& name, const std::string& wanted,
                            const Timetable& table) {
  if (wanted.empty()) return absl::OkStatus();
  const absl::StatusOr<Placement> placement = NamedPlacement(wanted, table);
  if (placement.ok() && placement->rank_of_stage() == table.placement.rank_of_stage() &&
      placement->copies() == table.placement.copies()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("schedule ", name,
                                                 " places its stages itself, not as --placement ",
                                                 wanted, " says; that flag is for files"));
}

absl::StatusOr<FoundTable> ParseCsv(absl::string_view text, const std::string& name) {
  absl::StatusOr<Timetable> table = ParseTimetableCsv(text, name);
  if (!table.ok()) return table.status();
  return FoundTable{.table = *std::move(table), .line_end = LineEndOf(text), .costs = {}};
}

absl::StatusOr<FoundTable> ReadCsvTable(const std::string& file) {
  const absl::StatusOr<std::string> text = ReadWholeFile(file, kMostTextBytes);
  return text.ok() ? ParseCsv(*text, file) : text.status();
}

absl::StatusOr<FoundTable> ParsePlanTable(absl::string_view text, const std::string& name) {
  absl::StatusOr<FoundTable> found = ReadPlanText(text, name);
  if (found.ok() && !found->costs.given()) {
    PrintNotice(absl::StrCat("note: ", name, " has no field 'costs', so F, I and W cost 1 each"));
  }
  return found;
}

absl::StatusOr<FoundTable> ReadPlanTable(const std::string& file) {
  const absl::StatusOr<std::string> text = ReadWholeFile(file, kMostJsonBytes);
  return text.ok() ? ParsePlanTable(*text, file) : text.status();
}

// A plan is a JSON object; no row of a table begins so.
absl::StatusOr<FoundTable> ReadStandardTable() {
  const absl::StatusOr<std::string> text = ReadStandardInput();
  if (!text.ok()) return text.status();
  const std::string name = NameOfFile(kStandardInput);
  const bool is_plan = absl::StartsWith(absl::StripLeadingAsciiWhitespace(*text), "{");
  return is_plan ? ParsePlanTable(*text, name) : ParseCsv(*text, name);
}

// `found`, of the file called `name`, with the placement, the size and the recomputation that were
// asked for.
absl::StatusOr<FoundTable> MadeToFit(FoundTable found, const std::string& name,
                                     const ScheduleQuestion& asked) {
  if (absl::Status ok = CheckFileTakes(name, asked); !ok.ok()) return ok;
  absl::StatusOr<Timetable> table = std::move(found.table);
  if (!asked.placement.empty()) {
    const absl::StatusOr<Placement> placement = NamedPlacement(asked.placement, *table);
    if (!placement.ok()) return placement.status();
    table->placement = *placement;
  }
  for (const absl::Status& ok : {CheckCount("-p", asked.ranks, table->placement.ranks()),
                                 CheckCount("-m", asked.micro_batches, table->micro_batches),
                                 CheckCount("-v", asked.chunks, table->placement.chunks())}) {
    if (!ok.ok()) return ok;
  }
  if (asked.recompute) table = RecomputeAhead(*table);
  if (!table.ok()) return table.status();
  found.table = *std::move(table);
  return found;
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseStageMembers(const std::string& text) {
  std::vector<int> members;
  if (text.empty()) return members;
  const absl::StatusOr<std::vector<absl::string_view>> parts =
      SplitList("--stage-replicas", text, "3,1");
  if (!parts.ok()) return parts.status();
  int ranks = 0;
  for (const absl::string_view part : *parts) {
    int count = 0;
    const bool number = absl::SimpleAtoi(part, &count);
    if (!number || count < 1 || count > kMostDealtRanks || (ranks += count) > kMostDealtRanks) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--stage-replicas ", text, ": expected the ranks of each stage, such as 3,1, ",
          kMostDealtRanks, " in all at most"));
    }
    members.push_back(count);
  }
  return members;
}

absl::StatusOr<Timetable> GenerateAsked(const CatalogueEntry& entry,
                                        const ScheduleRequest& request) {
  absl::StatusOr<Timetable> table = GenerateSchedule(entry.name, request);
  const bool takes_chunks = entry.chunk_step == 0 ? request.chunks == entry.default_chunks
                                                  : request.chunks % entry.chunk_step == 0;
  if (table.ok() || takes_chunks) return table;
  return absl::Status(table.status().code(), absl::StrCat("--chunks ", request.chunks, ": ",
                                                          std::string(table.status().message())));
}

Placement UsualPlacement(const std::string& name, int ranks, int chunks) {
  return name == "v" ? Placement::V(ranks, chunks) : Placement::Looped(ranks, chunks);
}

absl::StatusOr<FoundTable> ReadTable(const std::string& file, const ScheduleQuestion& asked) {
  absl::StatusOr<FoundTable> found = file == kStandardInput ? ReadStandardTable()
                                     : IsPlan(file)         ? ReadPlanTable(file)
                                                            : ReadCsvTable(file);
  return found.ok() ? MadeToFit(*std::move(found), NameOfFile(file), asked) : found;
}

absl::StatusOr<FoundTable> ReadTableText(absl::string_view text, const std::string& name,
                                         const ScheduleQuestion& asked) {
  absl::StatusOr<FoundTable> found = ParseCsv(text, name);
  return found.ok() ? MadeToFit(*std::move(found), name, asked) : found;
}

absl::StatusOr<FoundTable> ReadPlanText(absl::string_view json, const std::string& name) {
  const absl::StatusOr<PlanFile> plan = ParsePlan(json, name);
  if (!plan.ok()) return plan.status();
  if (!plan->says_step()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": this plan was made for the bottleneck alone, so it has no timetable"));
  }
  if (!plan->stage_replicas.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name,
                     ": stages of this plan have replicas of their own; `sluice plan ... "
                     "--format svg` draws it"));
  }
  absl::StatusOr<Timetable> table =
      plan->timetable.empty()
          ? GenerateSchedule(plan->schedule, {.ranks = plan->devices,
                                              .micro_batches = plan->micro_batches,
                                              .chunks = plan->chunks})
          : ParseTimetableCsv(plan->timetable, name);
  if (!table.ok()) return table.status();
  if (absl::Status ok = CheckStageRanks(*plan, table->placement, name); !ok.ok()) return ok;
  table->name = plan->schedule;
  FoundTable found{.table = *std::move(table), .line_end = LineEnd::kLf, .costs = {}};
  if (plan->costs.empty()) return found;
  absl::StatusOr<GivenCosts> costs = GivenCosts::FromPlan(plan->costs, name);
  if (!costs.ok()) return costs.status();
  if (absl::Status ok = costs->On(found.table.placement).status(); !ok.ok()) return ok;
  found.costs = *std::move(costs);
  return found;
}

absl::StatusOr<FoundTable> ReadSoundTable(const std::string& file, const ScheduleQuestion& asked) {
  absl::StatusOr<FoundTable> found = ReadTable(file, asked);
  if (!found.ok()) return found;
  absl::Status sound = ValidateTimetable(found->table);
  if (!sound.ok()) return WithExitCode(std::move(sound), kExitInvalidTimetable);
  return found;
}

absl::StatusOr<Timetable> GenerateTable(const std::string& name, const ScheduleQuestion& asked) {
  const absl::StatusOr<const CatalogueEntry*> entry = FindSchedule(name, {kAuto});
  if (!entry.ok()) return entry.status();
  absl::StatusOr<ScheduleRequest> request = RequestOf(asked, **entry);
  if (!request.ok()) return request.status();
  absl::StatusOr<ScheduleCosts> costs;
  if ((*entry)->takes_costs && request->ranks > 0 && request->ranks <= kMostRanksWithCosts) {
    costs = asked.costs.On(Placement::Looped(request->ranks));
    if (!costs.ok()) return costs.status();
    request->costs = &costs->stages;
    request->memory_limit = asked.memory_limit.value_or(0);
  }
  absl::StatusOr<Timetable> table = GenerateAsked(**entry, *request);
  if (table.ok() && asked.recompute) table = RecomputeAhead(*table);
  if (!table.ok()) return table;
  const absl::Status placed = CheckPlacement(name, asked.placement, *table);
  if (!placed.ok()) return placed;
  return table;
}

absl::StatusOr<FoundTable> FindTable(const std::string& what, const ScheduleQuestion& asked) {
  if (NamesFile(what)) return ReadSoundTable(what, asked);
  absl::StatusOr<Timetable> table = GenerateTable(what, asked);
  if (!table.ok()) return table.status();
  return FoundTable{.table = *std::move(table), .line_end = LineEnd::kLf, .costs = {}};
}

ScheduleQuestion WithCostsOf(const FoundTable& found, ScheduleQuestion asked) {
  if (!asked.costs.given()) asked.costs = found.costs;
  return asked;
}

}  // namespace sluice
