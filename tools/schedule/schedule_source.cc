#include "tools/schedule/schedule_source.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedules/csv.h"
#include "schedules/generators/catalogue.h"
#include "schedules/generators/recompute_ahead.h"
#include "tools/files.h"

namespace sluice {
namespace {

// As many as a table can have stages.
constexpr int kMostRanksWithCosts = 1 << 16;
// Of replicated stages, in all.
constexpr int kMostDealtRanks = 1024;

absl::StatusOr<ScheduleRequest> RequestOf(const ScheduleFlags& flags, const CatalogueEntry& entry) {
  if (!flags.ranks.has_value() || !flags.micro_batches.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule ", entry.name,
                     " needs -p/--ranks and -m/--micro-batches, as in: sluice schedule show ",
                     entry.name, " -p 4 -m 8"));
  }
  ScheduleRequest request{*flags.ranks, *flags.micro_batches,
                          flags.chunks.value_or(entry.default_chunks)};
  if (flags.group.has_value()) {
    if (*flags.group < 1)
      return absl::InvalidArgumentError(
          absl::StrCat("group must be at least 1, not ", *flags.group));
    if (!entry.takes_group) {
      return absl::InvalidArgumentError(
          absl::StrCat("schedule ", entry.name, " has no groups; leave --group out"));
    }
    request.group = *flags.group;
  }
  if (flags.update_every.has_value()) {
    if (*flags.update_every < 1 || entry.updates != WeightUpdates::kDoubleBuffered) {
      return absl::InvalidArgumentError(
          *flags.update_every < 1
              ? absl::StrCat("--update-every must be at least 1, not ", *flags.update_every)
              : absl::StrCat("schedule ", entry.name,
                             " does not choose when weights change; leave --update-every out"));
    }
    request.update_every = *flags.update_every;
  }
  return request;
}

// The usual placement of that name with as many stages and ranks as `table` has.
absl::StatusOr<Placement> NamedPlacement(const std::string& name, const Timetable& table) {
  const int ranks = static_cast<int>(table.rows.size());
  const int stages = table.placement.stages();
  if (name == "bidirectional") {
    if (stages == 2 * ranks) return Placement::Bidirectional(ranks);
    return absl::InvalidArgumentError(
        absl::StrCat("--placement bidirectional: two copies of the model on ", ranks,
                     " ranks have ", 2 * ranks, " stages, not ", stages));
  }
  if (stages % ranks != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--placement ", name, ": ", stages, " stages do not spread evenly over ", ranks, " ranks"));
  }
  return UsualPlacement(name, ranks, stages / ranks);
}

absl::Status CheckCount(const char* what, const std::optional<int>& asked, int found) {
  if (!asked.has_value() || *asked == found) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " ", *asked, " was asked for, but the file has ", found));
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseStageReplicas(const std::string& text) {
  std::vector<int> replicas;
  if (text.empty()) return replicas;
  int ranks = 0;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    int count = 0;
    const bool number = absl::SimpleAtoi(part, &count);
    if (!number || count < 1 || count > kMostDealtRanks || (ranks += count) > kMostDealtRanks) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--stage-replicas ", text, ": expected the ranks of each stage, such as 3,1, ",
          kMostDealtRanks, " in all at most"));
    }
    replicas.push_back(count);
  }
  return replicas;
}

Placement UsualPlacement(const std::string& name, int ranks, int chunks) {
  return name == "v" ? Placement::V(ranks, chunks) : Placement::Looped(ranks, chunks);
}

bool NamesFile(const std::string& what) {
  return absl::EndsWith(what, ".csv") || absl::StrContains(what, "/");
}

absl::StatusOr<Timetable> ReadTable(const ScheduleFlags& flags) {
  const absl::StatusOr<std::string> text = ReadFile(flags.what);
  if (!text.ok()) return text.status();
  absl::StatusOr<Timetable> table = ParseTimetableCsv(*text, flags.what);
  if (!table.ok()) return table;
  if (!flags.placement.empty()) {
    const absl::StatusOr<Placement> placement = NamedPlacement(flags.placement, *table);
    if (!placement.ok()) return placement.status();
    table->placement = *placement;
  }
  for (const absl::Status& ok : {CheckCount("-p", flags.ranks, table->placement.ranks()),
                                 CheckCount("-m", flags.micro_batches, table->micro_batches),
                                 CheckCount("-v", flags.chunks, table->placement.chunks())}) {
    if (!ok.ok()) return ok;
  }
  return flags.recompute ? RecomputeAhead(*table) : table;
}

absl::StatusOr<Timetable> GenerateTable(const std::string& name, const ScheduleFlags& flags) {
  const absl::StatusOr<const CatalogueEntry*> entry = FindSchedule(name);
  if (!entry.ok()) return entry.status();
  absl::StatusOr<ScheduleRequest> request = RequestOf(flags, **entry);
  if (!request.ok()) return request.status();
  absl::StatusOr<ScheduleCosts> costs;
  if ((*entry)->takes_costs && request->ranks > 0 && request->ranks <= kMostRanksWithCosts) {
    costs = ReadScheduleCosts(flags.costs, Placement::Looped(request->ranks));
    if (!costs.ok()) return costs.status();
    request->costs = &costs->stages;
    request->memory_limit = flags.memory_limit.value_or(0);
  }
  absl::StatusOr<Timetable> table = GenerateSchedule(name, *request);
  if (table.ok() && flags.recompute) table = RecomputeAhead(*table);
  if (!table.ok() || flags.placement.empty()) return table;
  const absl::StatusOr<Placement> wanted = NamedPlacement(flags.placement, *table);
  if (wanted.ok() && wanted->rank_of_stage() == table->placement.rank_of_stage() &&
      wanted->replicas() == table->placement.replicas()) {
    return table;
  }
  return absl::InvalidArgumentError(absl::StrCat("schedule ", name,
                                                 " places its stages itself, not as --placement ",
                                                 flags.placement, " says; that flag is for files"));
}

}  // namespace sluice
