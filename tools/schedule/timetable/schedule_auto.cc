#include "tools/schedule/timetable/schedule_auto.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/spec/units.h"
#include "schedules/optimise/choose.h"
#include "tools/command.h"
#include "tools/flag_values.h"
#include "tools/schedule/timetable/schedule_names.h"

namespace sluice {
namespace {

absl::StatusOr<Placement> AutoPlacement(const ScheduleQuestion& asked) {
  if (!asked.ranks.has_value() || !asked.micro_batches.has_value()) {
    return absl::InvalidArgumentError(
        "schedule auto needs -p/--ranks and -m/--micro-batches, as in: sluice schedule show auto "
        "-p 4 -m 8 --memory-limit 4");
  }
  for (const absl::Status& ok : {CheckAtLeastOne("ranks", asked.ranks),
                                 CheckAtLeastOne("micro-batches", asked.micro_batches),
                                 CheckAtLeastOne("chunks", asked.chunks)}) {
    if (!ok.ok()) return ok;
  }
  if (absl::Status ok = CheckTakes(AutoEntry(), asked); !ok.ok()) return ok;
  if (asked.placement == "bidirectional") {
    return absl::InvalidArgumentError(
        "schedule auto has one copy of the model, placed looped or v; leave --placement "
        "bidirectional out, which is for chimera and for files");
  }
  if (asked.recompute) {
    return absl::InvalidArgumentError(
        "schedule auto rebuilds nothing; leave --recompute out, or add it to what auto wrote with "
        "--format csv");
  }
  const bool v = asked.placement == "v" && !asked.choose_chunks;
  const int chunks = asked.chunks.value_or(v ? 2 : 1);
  if (absl::Status ok = CheckScheduleSize(
          {.ranks = *asked.ranks, .micro_batches = *asked.micro_batches, .chunks = chunks});
      !ok.ok()) {
    return ok;
  }
  return v ? Placement::V(*asked.ranks, chunks) : Placement::Looped(*asked.ranks, chunks);
}

// The largest number of stages per rank that `-v auto` tries.
constexpr int kMostParts = 4;

std::vector<Cut> AutoCuts(const OptimiseRequest& request, const ScheduleQuestion& asked) {
  std::vector<Cut> cuts = CutsOf(request.placement.ranks(), request.costs, kMostParts);
  const auto is_v = [](const Cut& cut) {
    return cut.placement.rank_of_stage() !=
           Placement::Looped(cut.placement.ranks(), cut.parts).rank_of_stage();
  };
  if (asked.placement == "v") std::erase_if(cuts, [&](const Cut& cut) { return !is_v(cut); });
  if (asked.placement == "looped") std::erase_if(cuts, is_v);
  return cuts;
}

}  // namespace

absl::StatusOr<OptimiseRequest> AutoRequest(const ScheduleQuestion& asked) {
  const absl::StatusOr<Placement> placement = AutoPlacement(asked);
  if (!placement.ok()) return placement.status();
  absl::StatusOr<ScheduleCosts> costs = asked.costs.On(*placement);
  if (!costs.ok()) return costs.status();
  OptimiseRequest request;
  request.placement = *placement;
  request.micro_batches = *asked.micro_batches;
  request.costs = std::move(costs->stages);
  request.limits.bytes = std::move(costs->device_memory);
  if (asked.memory_limit.has_value()) {
    request.limits.activations.assign(placement->ranks(), *asked.memory_limit);
  }
  request.time_limit = asked.time_limit;
  request.stop = asked.stop;
  return request;
}

absl::StatusOr<AutoAnswer> AnswerAuto(const ScheduleQuestion& asked) {
  const absl::StatusOr<OptimiseRequest> request = AutoRequest(asked);
  if (!request.ok()) return request.status();
  absl::StatusOr<OptimisedTimetable> best =
      asked.choose_chunks ? ChooseTimetable(*request, AutoCuts(*request, asked))
                          : OptimiseTimetable(*request);
  if (absl::IsResourceExhausted(best.status())) return WithExitCode(best.status(), kExitNoPlan);
  if (!best.ok()) return best.status();
  AutoAnswer answer{.best = *std::move(best),
                    .costs = {request->costs, request->limits.bytes},
                    .activation_limit = asked.memory_limit};
  const int parts = asked.choose_chunks ? answer.best.table.placement.chunks() : 1;
  if (parts > 1) answer.costs.stages = SplitStages(request->costs, parts);
  if (answer.activation_limit.has_value())
    answer.activation_limit = LimitOfParts(*answer.activation_limit, parts);
  return answer;
}

absl::StatusOr<PricedTimetable> AutoTimetable(const ScheduleQuestion& asked) {
  absl::StatusOr<AutoAnswer> answer = AnswerAuto(asked);
  if (!answer.ok()) return answer.status();
  return PricedTimetable{.table = std::move(answer->best.table),
                         .costs = std::move(answer->costs),
                         .activation_limit = answer->activation_limit,
                         .lower_bound = answer->best.lower_bound};
}

}  // namespace sluice
