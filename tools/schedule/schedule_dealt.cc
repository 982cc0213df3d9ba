#include "tools/schedule/schedule_dealt.h"

#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedules/check/validate.h"
#include "schedules/simulate/dealt_times.h"
#include "schedules/stage_deal.h"
#include "tools/command.h"
#include "tools/schedule/schedule_auto.h"

namespace sluice {
namespace {

absl::Status CheckFlags(const ScheduleFlags& flags, int ranks) {
  if (flags.format == "comms-csv") {
    return absl::InvalidArgumentError(
        "--format comms-csv has a rank a stage; with --stage-replicas give another");
  }
  if (!flags.against.empty()) {
    return absl::InvalidArgumentError("--against and --stage-replicas do not go together");
  }
  if (NamesFile(flags.what)) return absl::OkStatus();
  if (!flags.micro_batches) {
    return absl::InvalidArgumentError("--stage-replicas needs -m/--micro-batches");
  }
  if (flags.ranks.value_or(ranks) != ranks) {
    return absl::InvalidArgumentError(absl::StrCat("--stage-replicas ", flags.stage_replicas,
                                                   " is ", ranks, " ranks, not -p ", *flags.ranks,
                                                   "; leave -p out"));
  }
  return absl::OkStatus();
}

// A row for each rank that there is.
absl::StatusOr<Timetable> WideTable(ScheduleFlags flags, int ranks) {
  flags.ranks = ranks;
  if (flags.what != kAuto) return GenerateTable(flags.what, flags);
  absl::StatusOr<OptimisedTimetable> best = AutoTimetable(flags);
  if (!best.ok()) return best.status();
  return std::move(best->table);
}

// A row for each stage, as the file has them.
absl::StatusOr<Timetable> FileTable(const ScheduleFlags& flags, int stages) {
  absl::StatusOr<Timetable> table = ReadTable(flags);
  if (!table.ok()) return table;
  if (absl::Status sound = ValidateTimetable(*table); !sound.ok()) {
    return WithExitCode(std::move(sound), kExitInvalidTimetable);
  }
  const Placement& placement = table->placement;
  if (placement.stages() == stages && placement.ranks() == stages &&
      table->updates == WeightUpdates::kFlush) {
    return table;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(flags.what, " has ", placement.stages(), " stages in ", placement.ranks(),
                   " rows; --stage-replicas ", flags.stage_replicas,
                   " takes a synchronous table with a row for each of ", stages, " stages"));
}

absl::StatusOr<Timetable> StageTable(const ScheduleFlags& flags, const std::vector<int>& replicas,
                                     int ranks) {
  if (NamesFile(flags.what)) return FileTable(flags, static_cast<int>(replicas.size()));
  const absl::StatusOr<Timetable> wide = WideTable(flags, ranks);
  return wide.ok() ? NarrowTimetable(*wide, replicas) : wide;
}

absl::StatusOr<ScheduleCosts> CostsOf(const ScheduleFlags& flags, const Placement& placement,
                                      const std::vector<int>& replicas) {
  absl::StatusOr<ScheduleCosts> costs = ReadScheduleCosts(flags.costs, placement);
  if (!costs.ok()) return costs;
  StageCosts& stages = costs->stages;
  if (!stages.link_busy.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.costs.file,
                     ": messages between stages of several ranks take no turns; leave the "
                     "bandwidth out, and give what a message takes as its latency"));
  }
  for (size_t stage = 0; stage < replicas.size() && flags.costs.file.empty(); ++stage) {
    for (std::vector<double>* of : {&stages.forward, &stages.input_grad, &stages.weight_grad,
                                    &stages.backward, &stages.recompute}) {
      if (!of->empty()) (*of)[stage] *= replicas[stage];
    }
  }
  // What a file says of a stage's device holds for all of them.
  std::vector<double> memory;
  for (size_t stage = 0; stage < costs->device_memory.size(); ++stage) {
    memory.insert(memory.end(), static_cast<size_t>(replicas[stage]), costs->device_memory[stage]);
  }
  costs->device_memory = std::move(memory);
  return costs;
}

}  // namespace

absl::StatusOr<DealtSchedule> DealSchedule(const ScheduleFlags& flags) {
  const absl::StatusOr<std::vector<int>> replicas = ParseStageReplicas(flags.stage_replicas);
  if (!replicas.ok()) return replicas.status();
  const int ranks = std::accumulate(replicas->begin(), replicas->end(), 0);
  if (absl::Status status = CheckFlags(flags, ranks); !status.ok()) return status;
  absl::StatusOr<Timetable> table = StageTable(flags, *replicas, ranks);
  if (!table.ok()) return table.status();
  absl::StatusOr<ScheduleCosts> costs = CostsOf(flags, table->placement, *replicas);
  if (!costs.ok()) return costs.status();
  const DealtTimetable dealt(*table, StageDeal(*replicas, 1));
  DealtSchedule schedule{*std::move(table), {DrawnTable(dealt), *std::move(costs), {}, {}}};
  ShownSchedule& shown = schedule.shown;
  if (absl::Status status = TakeMeasured(flags, &shown); !status.ok()) return status;
  shown.run = SimulateDealt(dealt, shown.costs.stages, /*tail=*/{}, Detail::kEveryAction);
  if (!std::isfinite(shown.run.makespan)) {
    return absl::InvalidArgumentError("the costs are too large: their sum is not finite");
  }
  const absl::Status fits = CheckMemoryLimit(schedule.table.name, shown.run, flags);
  if (!fits.ok()) return fits;
  return schedule;
}

}  // namespace sluice
