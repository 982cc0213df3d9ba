#include "tools/train/train_timetable.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedules/check/validate.h"
#include "schedules/csv.h"
#include "schedules/generators/catalogue.h"
#include "schedules/optimise/optimise.h"
#include "schedules/stage_deal.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/schedule/schedule_source.h"

namespace sluice {
namespace {

// An asynchronous run drains after this many micro-batches, to report and to notice Ctrl-C. The
// bubble of that is (p - 1) / this.
constexpr int64_t kMicroBatchesWithoutFlush = 1024;

bool FromFile(const TrainFlags& flags) { return absl::EndsWith(flags.schedule, ".csv"); }

absl::StatusOr<Timetable> Generate(const TrainFlags& flags, int micro_batches, int update_every) {
  absl::StatusOr<const CatalogueEntry*> entry = FindSchedule(flags.schedule);
  if (!entry.ok()) return entry.status();
  ScheduleRequest request{.ranks = flags.stages.value_or(kDefaultRanks),
                          .micro_batches = micro_batches,
                          .chunks = flags.chunks > 0 ? flags.chunks : (*entry)->default_chunks};
  request.update_every = update_every;
  return GenerateSchedule(flags.schedule, request);
}

// The best timetable for equal stages whose F, I and W take equally long.
absl::StatusOr<Timetable> Optimise(const TrainFlags& flags, int micro_batches) {
  const int ranks = flags.stages.value_or(kDefaultRanks);
  const int chunks = flags.chunks > 0 ? flags.chunks : flags.placement == "v" ? 2 : 1;
  const absl::Status size =
      CheckScheduleSize({.ranks = ranks, .micro_batches = micro_batches, .chunks = chunks});
  if (!size.ok()) return size;
  OptimiseRequest request;
  request.placement = UsualPlacement(flags.placement, ranks, chunks);
  request.micro_batches = micro_batches;
  request.costs = StageCosts::Uniform(request.placement.stages(), 1, 1, 1);
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

// The rows say where stages are; --placement says where they should be.
absl::Status CheckPlacement(const TrainFlags& flags, const Timetable& table) {
  if (flags.placement.empty()) return absl::OkStatus();
  const Placement& placement = table.placement;
  const int chunks = placement.stages() / placement.ranks();
  const Placement wanted = UsualPlacement(flags.placement, placement.ranks(), chunks);
  if (wanted.rank_of_stage() == placement.rank_of_stage()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--placement ", flags.placement, ": ",
                                                 flags.schedule, " has its stages elsewhere"));
}

// `flag` as given, or absent.
absl::Status CheckCount(const std::string& file, const char* what, const char* flag, int found,
                        const std::optional<int>& given) {
  if (!given.has_value() || *given == found) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(file, " is for ", found, " ", what, ", not ",
                                                 *given, "; give ", flag, " ", found,
                                                 " or leave it out"));
}

// The table in `text`, which stands in `file`.
absl::StatusOr<Timetable> Import(const TrainFlags& flags, const std::string& text,
                                 const std::string& file) {
  absl::StatusOr<Timetable> table = ParseTimetableCsv(text, file);
  if (!table.ok()) return table;
  const std::optional<int> chunks =
      flags.chunks > 0 ? std::optional<int>(flags.chunks) : std::nullopt;
  for (const absl::Status& status :
       {CheckSound(*table, file),
        CheckCount(file, "ranks", "--stages", table->placement.ranks(), flags.stages),
        CheckCount(file, "micro-batches", "--micro-batches", table->micro_batches,
                   flags.micro_batches),
        CheckCount(file, "stages a rank", "--chunks", table->placement.chunks(), chunks),
        CheckPlacement(flags, *table)}) {
    if (!status.ok()) return status;
  }
  return table;
}

absl::StatusOr<Timetable> WholeTimetable(const TrainFlags& flags) {
  const int micro_batches = flags.micro_batches.value_or(kDefaultMicroBatches);
  if (!flags.timetable.empty()) return Import(flags, flags.timetable, flags.plan);
  if (FromFile(flags)) {
    absl::StatusOr<std::string> text = ReadFile(flags.schedule);
    if (!text.ok()) return text.status();
    return Import(flags, *text, flags.schedule);
  }
  if (flags.schedule == "auto") return Optimise(flags, micro_batches);
  if (!flags.placement.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--placement ", flags.placement,
                                                   " is for a FILE.csv or auto; schedule ",
                                                   flags.schedule, " has a placement of its own"));
  }
  return Generate(flags, micro_batches, /*update_every=*/micro_batches);
}

}  // namespace

absl::StatusOr<std::vector<int>> StageReplicasOf(const TrainFlags& flags) {
  absl::StatusOr<std::vector<int>> replicas = ParseStageReplicas(flags.stage_replicas);
  if (!replicas.ok() || replicas->empty()) return replicas;
  const auto stages = static_cast<int>(replicas->size());
  if (flags.stages.value_or(stages) != stages) {
    return absl::InvalidArgumentError(
        absl::StrCat("--stage-replicas ", flags.stage_replicas, " is for ", stages, " stages, not ",
                     *flags.stages, "; give --stages ", stages, " or leave it out"));
  }
  return replicas;
}

absl::StatusOr<Timetable> StepTimetable(const TrainFlags& flags) {
  const absl::StatusOr<std::vector<int>> replicas = StageReplicasOf(flags);
  if (!replicas.ok()) return replicas.status();
  if (replicas->empty()) return WholeTimetable(flags);
  TrainFlags wide = flags;
  const bool rows_are_stages = FromFile(flags) || !flags.timetable.empty();
  wide.stages = rows_are_stages ? static_cast<int>(replicas->size())
                                : std::accumulate(replicas->begin(), replicas->end(), 0);
  absl::StatusOr<Timetable> table = WholeTimetable(wide);
  return rows_are_stages || !table.ok() ? table : NarrowTimetable(*table, *replicas);
}

absl::StatusOr<Timetable> RunTimetable(const TrainFlags& flags, const Timetable& step) {
  if (step.updates == WeightUpdates::kFlush) return step;
  const int64_t most = std::max<int64_t>(kMicroBatchesWithoutFlush / step.micro_batches, 1);
  const TrainOptions& options = flags.options;
  // A checkpoint may know better how many steps there are.
  const bool known = options.saving.resume.empty() || options.training.given.steps.has_value();
  int64_t steps = known ? std::clamp<int64_t>(options.training.steps, 1, most) : most;
  // Looking at the weights takes a flush anyway.
  for (int64_t pause :
       {options.watching.eval_every, options.saving.directory.empty() ? 0 : options.saving.every}) {
    if (pause > 0) steps = std::min(steps, pause);
  }
  return Generate(flags, static_cast<int>(steps) * step.micro_batches, step.micro_batches);
}

int GroupsOf(const TrainFlags& flags, const Timetable& step) {
  const int groups = flags.sum_groups.value_or(0);
  return step.placement.replicas() > 1 && groups == step.placement.replicas() ? 0 : groups;
}

}  // namespace sluice
