#include "tools/schedule/timetable/priced_timetable.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/command.h"

namespace sluice {

absl::StatusOr<PricedTimetable> PriceTimetable(Timetable table, const ScheduleQuestion& asked) {
  absl::StatusOr<ScheduleCosts> costs = asked.costs.On(table.placement);
  if (!costs.ok()) return costs.status();
  return PricedTimetable{.table = std::move(table),
                         .costs = *std::move(costs),
                         .activation_limit = asked.memory_limit};
}

absl::Status CheckActivationLimit(const std::string& name, const Simulation& run,
                                  const std::optional<int>& limit) {
  if (!limit.has_value()) return absl::OkStatus();
  for (size_t rank = 0; rank < run.peak_activations.size(); ++rank) {
    const int peak = run.peak_activations[rank];
    if (peak <= *limit) continue;
    return WithExitCode(
        absl::ResourceExhaustedError(absl::StrCat(name, " holds ", peak, " activations on rank ",
                                                  rank, "; --memory-limit is ", *limit,
                                                  "; schedule auto looks for one that fits")),
        kExitNoPlan);
  }
  return absl::OkStatus();
}

absl::StatusOr<Simulation> RunPriced(const PricedTimetable& priced) {
  absl::StatusOr<Simulation> run = Simulate(priced.table, priced.costs.stages);
  if (!run.ok()) return run;
  const absl::Status fits = CheckActivationLimit(priced.table.name, *run, priced.activation_limit);
  if (!fits.ok()) return fits;
  UseBound(priced.lower_bound, *run);
  return run;
}

void UseBound(double bound, Simulation& run) {
  if (bound <= run.lower_bound) return;
  run.lower_bound = std::min(bound, run.makespan);
  run.gap = run.makespan / run.lower_bound - 1;
}

}  // namespace sluice
