#include "tools/schedule/answer/schedule_dealt.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedules/counted.h"
#include "schedules/simulate/dealt_times.h"
#include "schedules/stage_deal.h"
#include "tools/schedule/timetable/schedule_auto.h"
#include "tools/schedule/timetable/schedule_names.h"
#include "tools/schedule/timetable/schedule_source.h"

namespace sluice {
namespace {

// "3,1": as --stage-replicas is typed.
std::string Typed(const std::vector<int>& members) { return absl::StrJoin(members, ","); }

// A table with one row per rank.
absl::StatusOr<Timetable> WideTable(const ShowQuestion& question) {
  if (question.what != kAuto) return GenerateTable(question.what, question.asked);
  absl::StatusOr<AutoAnswer> answer = AnswerAuto(question.asked);
  if (!answer.ok()) return answer.status();
  return std::move(answer->best.table);
}

// A table with one row per stage, as in the file.
absl::StatusOr<FoundTable> FileTable(const ShowQuestion& question) {
  absl::StatusOr<FoundTable> found = ReadSoundTable(question.what, question.asked);
  if (!found.ok()) return found;
  const std::vector<int>& members = question.asked.stage_members;
  const int stages = static_cast<int>(members.size());
  const Placement& placement = found->table.placement;
  if (placement.stages() == stages && placement.ranks() == stages &&
      found->table.updates == WeightUpdates::kFlush) {
    return found;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(question.what, " has ", Counted(placement.stages(), "stage"), " in ",
                   Counted(placement.ranks(), "row"), "; --stage-replicas ", Typed(members),
                   " takes a synchronous table with a row for each of ", stages, " stages"));
}

absl::StatusOr<FoundTable> StageTable(const ShowQuestion& question) {
  if (NamesFile(question.what)) return FileTable(question);
  const absl::StatusOr<Timetable> wide = WideTable(question);
  if (!wide.ok()) return wide.status();
  absl::StatusOr<Timetable> narrow = NarrowTimetable(*wide, question.asked.stage_members);
  if (!narrow.ok()) return narrow.status();
  return FoundTable{.table = *std::move(narrow), .line_end = LineEnd::kLf, .costs = {}};
}

// All ranks do the same work: without a file of costs, a stage of r members costs r times as much.
void ScaleCosts(const std::vector<int>& members, StageCosts* costs) {
  for (size_t stage = 0; stage < members.size(); ++stage) {
    for (std::vector<double>* of : {&costs->forward, &costs->input_grad, &costs->weight_grad,
                                    &costs->backward, &costs->recompute}) {
      if (!of->empty()) (*of)[stage] *= members[stage];
    }
  }
}

absl::StatusOr<ScheduleCosts> CostsOf(const ScheduleQuestion& asked, const Placement& placement) {
  absl::StatusOr<ScheduleCosts> costs = asked.costs.On(placement);
  if (!costs.ok()) return costs;
  const std::string* file = asked.costs.file();
  if (file == nullptr) ScaleCosts(asked.stage_members, &costs->stages);
  if (file != nullptr && !costs->stages.link_busy.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(*file,
                     ": messages between stages of several ranks take no turns; leave the "
                     "bandwidth out, and give what a message takes as its latency"));
  }
  // The memory that a file gives for a stage's device is that of each of its ranks.
  std::vector<double> memory;
  for (size_t stage = 0; stage < costs->device_memory.size(); ++stage) {
    memory.insert(memory.end(), static_cast<size_t>(asked.stage_members[stage]),
                  costs->device_memory[stage]);
  }
  costs->device_memory = std::move(memory);
  return costs;
}

}  // namespace

absl::StatusOr<DealtSchedule> DealSchedule(const ShowQuestion& question) {
  const ScheduleQuestion& asked = question.asked;
  absl::StatusOr<FoundTable> found = StageTable(question);
  if (!found.ok()) return found.status();
  absl::StatusOr<ScheduleCosts> costs = CostsOf(asked, found->table.placement);
  if (!costs.ok()) return costs.status();
  const DealtTimetable dealt(found->table, StageDeal(asked.stage_members, 1));
  DealtSchedule schedule{.table = std::move(found->table),
                         .line_end = found->line_end,
                         .shown = {.table = DrawnTable(dealt),
                                   .costs = *std::move(costs),
                                   .activation_limit = asked.memory_limit,
                                   .run = {},
                                   .measured = {}}};
  ShownSchedule& shown = schedule.shown;
  absl::Status status = TakeMeasured(question.measured, asked.costs, &shown);
  if (!status.ok()) return status;
  shown.run = SimulateDealt(dealt, shown.costs.stages, /*tail=*/{}, Detail::kEveryAction);
  if (!std::isfinite(shown.run.makespan)) {
    return absl::InvalidArgumentError("the costs are too large: their sum is not finite");
  }
  status = CheckActivationLimit(schedule.table, shown.run, asked.memory_limit);
  if (!status.ok()) return status;
  return schedule;
}

absl::Status NoCommsOfSharedStages() {
  return absl::InvalidArgumentError(
      "PyTorch's compute_comms format has one rank per stage; where several ranks share one, give "
      "another --format");
}

}  // namespace sluice
