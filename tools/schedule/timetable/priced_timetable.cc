#include "tools/schedule/timetable/priced_timetable.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedules/simulate/bound.h"
#include "tools/command.h"

namespace sluice {
namespace {

constexpr char kHeldPayload[] = "sluice/held-activations";

}  // namespace

absl::StatusOr<PricedTimetable> PriceTimetable(Timetable table, const ScheduleQuestion& asked) {
  absl::StatusOr<ScheduleCosts> costs = asked.costs.On(table.placement);
  if (!costs.ok()) return costs.status();
  return PricedTimetable{.table = std::move(table),
                         .costs = *std::move(costs),
                         .activation_limit = asked.memory_limit,
                         .lower_bound = {}};
}

absl::Status CheckActivationLimit(const Timetable& table, const Simulation& run,
                                  const std::optional<int>& limit) {
  if (!limit.has_value()) return absl::OkStatus();
  for (size_t rank = 0; rank < run.peak_activations.size(); ++rank) {
    const int peak = run.peak_activations[rank];
    if (peak <= *limit) continue;
    absl::Status status = absl::ResourceExhaustedError(
        absl::StrCat(table.name, " holds ", peak, " activations on rank ", rank,
                     "; --memory-limit is ", *limit, "; schedule auto looks for one that fits"));
    const int most = *std::max_element(run.peak_activations.begin(), run.peak_activations.end());
    status.SetPayload(kHeldPayload, absl::Cord(absl::StrCat(table.placement.chunks(), " ", most)));
    return WithExitCode(std::move(status), kExitNoPlan);
  }
  return absl::OkStatus();
}

HeldActivations HeldActivationsOf(const absl::Status& status) {
  HeldActivations held;
  const auto payload = status.GetPayload(kHeldPayload);
  if (!payload.has_value()) return held;
  const std::pair<std::string, std::string> numbers = absl::StrSplit(std::string(*payload), ' ');
  const bool read =
      absl::SimpleAtoi(numbers.first, &held.chunks) && absl::SimpleAtoi(numbers.second, &held.peak);
  return read ? held : HeldActivations();
}

absl::StatusOr<Simulation> RunPriced(const PricedTimetable& priced) {
  absl::StatusOr<Simulation> run = Simulate(priced.table, priced.costs.stages);
  if (!run.ok()) return run;
  const absl::Status fits = CheckActivationLimit(priced.table, *run, priced.activation_limit);
  if (!fits.ok()) return fits;
  UseBound(priced.lower_bound, *run);
  return run;
}

void UseBound(const std::optional<double>& bound, Simulation& run) {
  if (!bound.has_value()) return;
  run.lower_bound = std::min(*bound, run.makespan);
  run.gap = GapOf(run.makespan, run.lower_bound);
}

}  // namespace sluice
