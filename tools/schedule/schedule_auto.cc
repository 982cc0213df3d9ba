#include "tools/schedule/schedule_auto.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/spec/units.h"
#include "schedules/optimise/choose.h"
#include "tools/command.h"

namespace sluice {
namespace {

absl::Status CheckAtLeastOne(const char* flag, const std::optional<int>& value) {
  if (!value.has_value() || *value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(flag, " must be at least 1, not ", *value));
}

absl::StatusOr<Placement> AutoPlacement(const ScheduleFlags& flags) {
  if (!flags.ranks.has_value() || !flags.micro_batches.has_value()) {
    return absl::InvalidArgumentError(
        "schedule auto needs -p/--ranks and -m/--micro-batches, as in: sluice schedule show auto "
        "-p 4 -m 8 --memory-limit 4");
  }
  for (const absl::Status& ok : {CheckAtLeastOne("ranks", flags.ranks),
                                 CheckAtLeastOne("micro-batches", flags.micro_batches),
                                 CheckAtLeastOne("chunks", flags.chunks)}) {
    if (!ok.ok()) return ok;
  }
  if (flags.group.has_value()) {
    return absl::InvalidArgumentError("schedule auto has no groups; leave --group out");
  }
  if (flags.recompute) {
    return absl::InvalidArgumentError(
        "schedule auto rebuilds nothing; leave --recompute out, or add it to what auto wrote with "
        "--format csv");
  }
  const bool v = flags.placement == "v" && !flags.choose_chunks;
  const int chunks = flags.chunks.value_or(v ? 2 : 1);
  if (absl::Status ok = CheckScheduleSize(
          {.ranks = *flags.ranks, .micro_batches = *flags.micro_batches, .chunks = chunks});
      !ok.ok()) {
    return ok;
  }
  return v ? Placement::V(*flags.ranks, chunks) : Placement::Looped(*flags.ranks, chunks);
}

// Stages a rank that are tried for `-v auto`, at most.
constexpr int kMostParts = 4;

std::vector<Cut> AutoCuts(const OptimiseRequest& request, const ScheduleFlags& flags) {
  std::vector<Cut> cuts = CutsOf(request.placement.ranks(), request.costs, kMostParts);
  const auto is_v = [](const Cut& cut) {
    return cut.placement.rank_of_stage() !=
           Placement::Looped(cut.placement.ranks(), cut.parts).rank_of_stage();
  };
  if (flags.placement == "v") std::erase_if(cuts, [&](const Cut& cut) { return !is_v(cut); });
  if (flags.placement == "looped") std::erase_if(cuts, is_v);
  return cuts;
}

}  // namespace

absl::StatusOr<OptimiseRequest> AutoRequest(const ScheduleFlags& flags) {
  const absl::StatusOr<Placement> placement = AutoPlacement(flags);
  if (!placement.ok()) return placement.status();
  absl::StatusOr<ScheduleCosts> costs = ReadScheduleCosts(flags.costs, *placement);
  if (!costs.ok()) return costs.status();
  OptimiseRequest request;
  request.placement = *placement;
  request.micro_batches = *flags.micro_batches;
  request.costs = std::move(costs->stages);
  request.limits.bytes = std::move(costs->device_memory);
  if (flags.memory_limit.has_value()) {
    request.limits.activations.assign(placement->ranks(), *flags.memory_limit);
  }
  if (!flags.time_limit.empty()) {
    const absl::StatusOr<double> seconds = ParseSeconds(flags.time_limit);
    if (!seconds.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--time-limit: ", std::string(seconds.status().message())));
    }
    request.time_limit = *seconds;
  }
  return request;
}

absl::StatusOr<OptimisedTimetable> AutoTimetable(const ScheduleFlags& flags) {
  const absl::StatusOr<OptimiseRequest> request = AutoRequest(flags);
  if (!request.ok()) return request.status();
  absl::StatusOr<OptimisedTimetable> best =
      flags.choose_chunks ? ChooseTimetable(*request, AutoCuts(*request, flags))
                          : OptimiseTimetable(*request);
  if (!absl::IsResourceExhausted(best.status())) return best;
  return WithExitCode(best.status(), kExitNoPlan);
}

absl::Status CheckMemoryLimit(const std::string& name, const Simulation& run,
                              const ScheduleFlags& flags) {
  if (!flags.memory_limit.has_value()) return absl::OkStatus();
  for (size_t rank = 0; rank < run.peak_activations.size(); ++rank) {
    const int peak = run.peak_activations[rank];
    if (peak <= *flags.memory_limit) continue;
    return WithExitCode(
        absl::ResourceExhaustedError(absl::StrCat(name, " holds ", peak, " activations on rank ",
                                                  rank, "; --memory-limit is ", *flags.memory_limit,
                                                  "; schedule auto looks for one that fits")),
        kExitNoPlan);
  }
  return absl::OkStatus();
}

CatalogueEntry AutoEntry() {
  return {.name = kAuto,
          .summary = "the best found for your costs, and a proven bound",
          .needs = "any v",
          .bubble = "within the gap it states",
          .memory = "at most --memory-limit, >= v",
          .source = "sluice; takes --placement, --cost or --costs, --memory-limit and --time-limit",
          .splits_backward = true,
          .default_chunks = 1,
          .generate = nullptr};
}

ScheduleFlags FlagsOf(const OptimisedTimetable& best, ScheduleFlags flags) {
  if (!flags.choose_chunks) return flags;
  flags.costs.parts = best.table.placement.chunks();
  if (flags.memory_limit.has_value()) *flags.memory_limit *= flags.costs.parts;
  return flags;
}

void UseBound(double bound, Simulation& run) {
  if (bound <= run.lower_bound) return;
  run.lower_bound = std::min(bound, run.makespan);
  run.gap = run.makespan / run.lower_bound - 1;
}

}  // namespace sluice
