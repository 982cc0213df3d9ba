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

// A timetable with everything that is needed to simulate and judge it.
struct PricedTimetable {
  Timetable table;
  ScheduleCosts costs;
  // The (stage, micro-batch) activations that a rank may hold, in the timetable's stages.
  std::optional<int> activation_limit;
  // What is proved of the makespan, with these costs, of all timetables that were asked for, on
  // other placements too; absent: nothing but what a simulation says of the table's own placement.
  std::optional<double> lower_bound;
};

// `table` with the costs and the limit of the question.
absl::StatusOr<PricedTimetable> PriceTimetable(Timetable table, const ScheduleQuestion& asked);

// What a timetable that does not fit would hold; nothing where none is known.
struct HeldActivations {
  int chunks = 0;  // stages per rank
  int peak = 0;    // the most (stage, micro-batch) activations of any rank
};

// ResourceExhausted, with exit code 3 and HeldActivations, when a rank of `run`, that of `table`,
// holds more activations than `limit`.
absl::Status CheckActivationLimit(const Timetable& table, const Simulation& run,
                                  const std::optional<int>& limit);
// Those of such a status; nothing of others.
HeldActivations HeldActivationsOf(const absl::Status& status);

// Simulates `priced` with CheckActivationLimit and UseBound.
absl::StatusOr<Simulation> RunPriced(const PricedTimetable& priced);

// Sets the lower bound of `run` to `bound`, where there is one: the run's own may be larger, but is
// of its placement alone.
void UseBound(const std::optional<double>& bound, Simulation& run);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_TIMETABLE_PRICED_TIMETABLE_H_
