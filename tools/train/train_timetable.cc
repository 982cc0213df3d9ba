#include "tools/train/train_timetable.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/files/positioned_file.h"
#include "schedules/check/validate.h"
#include "schedules/counted.h"
#include "schedules/csv.h"
#include "schedules/generators/catalogue.h"
#include "schedules/optimise/optimise.h"
#include "schedules/stage_deal.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/schedule/timetable/schedule_names.h"
#include "tools/schedule/timetable/schedule_source.h"

namespace sluice {
namespace {

// An asynchronous run drains after this many micro-batches, to report and to notice Ctrl-C. That
// costs a bubble of (p - 1) / this number.
constexpr int64_t kMicroBatchesWithoutFlush = 1024;

bool FromFile(const TimetableChoice& choice) { return absl::EndsWith(choice.schedule, ".csv"); }

absl::StatusOr<Timetable> Generate(const TimetableChoice& choice, std::optional<int> ranks,
                                   int micro_batches, int update_every) {
  absl::StatusOr<const CatalogueEntry*> entry = FindSchedule(choice.schedule, {kAuto});
  if (!entry.ok()) return entry.status();
  ScheduleRequest request{.ranks = ranks.value_or(TimetableChoice::kDefaultRanks),
                          .micro_batches = micro_batches,
                          .chunks = choice.chunks > 0 ? choice.chunks : (*entry)->default_chunks};
  request.update_every = update_every;
  return GenerateAsked(**entry, request);
}

// The best timetable for stages of such costs; null: equal ones whose F, I and W take the same time.
absl::StatusOr<Timetable> Optimise(const TimetableChoice& choice, int ranks, int micro_batches,
                                   const StageCosts* costs) {
  const int chunks = choice.chunks > 0 ? choice.chunks : choice.placement == "v" ? 2 : 1;
  const absl::Status size =
      CheckScheduleSize({.ranks = ranks, .micro_batches = micro_batches, .chunks = chunks});
  if (!size.ok()) return size;
  OptimiseRequest request;
  request.placement = UsualPlacement(choice.placement, ranks, chunks);
  request.micro_batches = micro_batches;
  request.costs =
      costs != nullptr ? *costs : StageCosts::Uniform(request.placement.stages(), 1, 1, 1);
  absl::StatusOr<OptimisedTimetable> best = OptimiseTimetable(request);
  if (!best.ok()) return best.status();
  return std::move(best->table);
}

absl::Status CheckSound(const Timetable& table, const std::string& file) {
  const std::vector<Defect> defects = FindDefects(table);
  if (defects.empty()) return absl::OkStatus();
  return WithExitCode(absl::InvalidArgumentError(
                          absl::StrCat(file, ": not a sound timetable: ", ToString(defects.front()),
                                       "; 'sluice schedule check ", file, "' lists every defect")),
                      kExitInvalidTimetable);
}

// The rows of a file say on which rank each stage is; --placement must agree with them.
absl::Status CheckPlacement(const TimetableChoice& choice, const Timetable& table) {
  if (choice.placement.empty()) return absl::OkStatus();
  const Placement& placement = table.placement;
  const int chunks = placement.stages() / placement.ranks();
  const Placement wanted = UsualPlacement(choice.placement, placement.ranks(), chunks);
  if (wanted.rank_of_stage() == placement.rank_of_stage()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--placement ", choice.placement, ": ",
                                                 choice.schedule, " has its stages elsewhere"));
}

// InvalidArgument where `flag` was given and is not the number that `file` has.
absl::Status CheckCount(const std::string& file, const char* what, const char* flag, int found,
                        const std::optional<int>& given) {
  if (!given.has_value() || *given == found) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(file, " is for ", found, " ", what, ", not ",
                                                 *given, "; give ", flag, " ", found,
                                                 " or leave it out"));
}

// Reads the table in `text`, which is a part of `file`. `ranks`: the number that it must have, if
// any.
absl::StatusOr<Timetable> Import(const TimetableChoice& choice, std::optional<int> ranks,
                                 const std::string& text, const std::string& file) {
  absl::StatusOr<Timetable> table = ParseTimetableCsv(text, file);
  if (!table.ok()) return table;
  const std::optional<int> chunks =
      choice.chunks > 0 ? std::optional<int>(choice.chunks) : std::nullopt;
  for (const absl::Status& status :
       {CheckSound(*table, file),
        CheckCount(file, "ranks", "--stages", table->placement.ranks(), ranks),
        CheckCount(file, "micro-batches", "--micro-batches", table->micro_batches,
                   choice.micro_batches),
        CheckCount(file, "stages a rank", "--chunks", table->placement.chunks(), chunks),
        CheckPlacement(choice, *table)}) {
    if (!status.ok()) return status;
  }
  return table;
}

absl::StatusOr<Timetable> WholeTimetable(const TimetableChoice& choice, std::optional<int> ranks,
                                         const StageCosts* costs = nullptr) {
  const int micro_batches = choice.micro_batches.value_or(TimetableChoice::kDefaultMicroBatches);
  if (!choice.timetable.empty()) return Import(choice, ranks, choice.timetable, choice.plan);
  if (FromFile(choice)) {
    absl::StatusOr<std::string> text = ReadWholeFile(choice.schedule, kMostTextBytes);
    if (!text.ok()) return text.status();
    return Import(choice, ranks, *text, choice.schedule);
  }
  if (choice.schedule == "auto")
    return Optimise(choice, ranks.value_or(TimetableChoice::kDefaultRanks), micro_batches, costs);
  if (!choice.placement.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--placement ", choice.placement,
                                                   " is for a FILE.csv or auto; schedule ",
                                                   choice.schedule, " has a placement of its own"));
  }
  return Generate(choice, ranks, micro_batches, /*update_every=*/micro_batches);
}

absl::Status CheckStages(const TimetableChoice& choice) {
  const auto stages = static_cast<int>(choice.stage_members.size());
  if (choice.stages.value_or(stages) == stages) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--stage-replicas ", absl::StrJoin(choice.stage_members, ","), " is for ",
                   Counted(stages, "stage"), ", not ", *choice.stages, "; give --stages ", stages,
                   " or leave it out"));
}

}  // namespace

absl::StatusOr<Timetable> StepTimetable(const TimetableChoice& choice) {
  const std::vector<int>& members = choice.stage_members;
  if (members.empty()) return WholeTimetable(choice, choice.stages);
  if (absl::Status status = CheckStages(choice); !status.ok()) return status;
  const bool rows_are_stages = FromFile(choice) || !choice.timetable.empty();
  if (rows_are_stages) return WholeTimetable(choice, static_cast<int>(members.size()));
  absl::StatusOr<Timetable> table =
      WholeTimetable(choice, std::accumulate(members.begin(), members.end(), 0));
  return table.ok() ? NarrowTimetable(*table, members) : table;
}

absl::StatusOr<Timetable> OptimisedStep(const TimetableChoice& choice, const StageCosts& costs) {
  return WholeTimetable(choice, choice.stages, &costs);
}

absl::StatusOr<Timetable> RunTimetable(const TimetableChoice& choice, const TrainOptions& options,
                                       const Timetable& step) {
  if (step.updates == WeightUpdates::kFlush || FromFile(choice)) return step;
  const int64_t most = std::max<int64_t>(kMicroBatchesWithoutFlush / step.micro_batches, 1);
  // When a run is resumed, the checkpoint may set the number of steps.
  const bool known = options.saving.resume.empty() || options.training.given.steps.has_value();
  int64_t steps = known ? std::clamp<int64_t>(options.training.steps, 1, most) : most;
  // Looking at the weights needs a flush anyway.
  for (int64_t pause :
       {options.watching.eval_every, options.saving.directory.empty() ? 0 : options.saving.every}) {
    if (pause > 0) steps = std::min(steps, pause);
  }
  return Generate(choice, choice.stages, static_cast<int>(steps) * step.micro_batches,
                  step.micro_batches);
}

int GroupsOf(std::optional<int> sum_groups, const Timetable& step) {
  const int groups = sum_groups.value_or(0);
  return step.placement.copies() > 1 && groups == step.placement.copies() ? 0 : groups;
}

}  // namespace sluice
