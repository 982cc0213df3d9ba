#ifndef SLUICE_TOOLS_SCHEDULE_TIMETABLE_PRICED_TIMETABLE_H_
#define SLUICE_TOOLS_SCHEDULE_TIMETABLE_PRICED_TIMETABLE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schedules/simulate/simulate.h"
#include "schedules/timetable.h"
#include "tools/schedule/question/schedule_question.h"

namespace sluice {

// A timetable with all that it takes to simulate and judge it.
struct PricedTimetable {
  Timetable table;
  ScheduleCosts costs;
  // (stage, micro-batch) activations that a rank may hold, of these stages.
  std::optional<int> activation_limit;
  // No timetable of the kind asked for has a shorter makespan; 0: nothing is proved.
  double lower_bound = 0;
};

// `table` with the costs and the limit of the question.
absl::StatusOr<PricedTimetable> PriceTimetable(Timetable table, const ScheduleQuestion& asked);

// ResourceExhausted, with exit code 3, when a rank of `run` holds more activations than `limit`;
// `name` is what ran.
absl::Status CheckActivationLimit(const std::string& name, const Simulation& run,
                                  const std::optional<int>& limit);

// Simulates `priced`: CheckActivationLimit, and a lower bound that is at least its own.
absl::StatusOr<Simulation> RunPriced(const PricedTimetable& priced);

// Puts `bound` on the makespan into `run`, where it is better than the one there.
void UseBound(double bound, Simulation& run);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_TIMETABLE_PRICED_TIMETABLE_H_
