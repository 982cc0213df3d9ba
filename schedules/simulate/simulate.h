#ifndef SLUICE_SCHEDULES_SIMULATE_SIMULATE_H_
#define SLUICE_SCHEDULES_SIMULATE_SIMULATE_H_

#include "absl/status/statusor.h"
#include "schedules/simulate/simulation.h"
#include "schedules/simulate/stage_costs.h"
#include "schedules/timetable.h"

namespace sluice {

// How much of a run to keep: a table of 10^8 actions leaves no memory for the times of each action.
enum class Detail {
  kEveryAction,
  kSummary,  // rows and critical_path stay empty
};

// When each action runs if every rank executes its row in order, each action as soon as the
// previous one on its rank has ended and its inputs have arrived. Works on lowered and compute-only
// tables alike (sends and receives are instantaneous for the rank; the edge's latency lies between
// them). Linear in the number of actions.
// InvalidArgument when costs have the wrong length, are negative or not finite (or add up to that),
// or the table can never finish (a cycle).
absl::StatusOr<Simulation> Simulate(const Timetable& timetable, const StageCosts& costs,
                                    Detail detail = Detail::kEveryAction);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_SIMULATE_SIMULATE_H_
