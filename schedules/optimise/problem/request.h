#ifndef SLUICE_SCHEDULES_OPTIMISE_PROBLEM_REQUEST_H_
#define SLUICE_SCHEDULES_OPTIMISE_PROBLEM_REQUEST_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schedules/simulate/simulation.h"
#include "schedules/simulate/stage_costs.h"
#include "schedules/timetable.h"

// What the optimiser is asked, and what it answers.
namespace sluice {

enum class Objective {
  kMakespan,  // when the last rank ends
  kSpan,      // the longest time from a rank's first start to its last end
};

// What a rank may hold at once. Both limits may be given; both must then hold.
struct MemoryLimits {
  // [rank] (stage, micro-batch) activations, counted from the start of F to the end of W; empty: no
  // limit.
  std::vector<int> activations;
  // [rank] bytes, counted as StageCosts says: activation_bytes from the start of F to the end of I,
  // weight_grad_bytes from then to the end of W; empty: no limit.
  std::vector<double> bytes;
};

// A timetable is wanted for these stages on these ranks.
struct OptimiseRequest {
  Placement placement = Placement::Looped(1);
  int micro_batches = 1;
  StageCosts costs;
  MemoryLimits limits;
  Objective objective = Objective::kMakespan;
  // Further starts of the search: sound timetables of the same placement and micro-batches. The
  // answer is never worse than any of them that keeps the limits.
  std::vector<Timetable> seeds;
  // Seconds after which the best timetable so far is returned. Without it the search does a fixed
  // amount of work, and its answer depends on nothing but the request: not on threads, not on the
  // machine.
  std::optional<double> time_limit;
  // Asked now and then, from several threads; true ends the search with what it has.
  std::function<bool()> stop;
  // How much work the search does, as a share of the usual amount, which takes a fraction of a
  // second unless an answer is proved optimal earlier.
  double effort = 1;
  uint64_t seed = 1;
  // Threads to search with; 0: as many as the machine has.
  int threads = 0;
};

struct OptimisedTimetable {
  Timetable table;  // compute-only, sound, within the limits; called "auto"
  Simulation run;   // with lower_bound and gap as below
  // Proved: no timetable of these stages on these ranks within these limits has a lower value of the
  // objective.
  double lower_bound = 0;
  double gap = 0;        // objective / lower_bound - 1
  bool optimal = false;  // the gap is 0: by the bounds, or by exhausting all timetables
  std::string found_by;  // "search", "exhaustive search" or the name of the seed that won
};

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_OPTIMISE_PROBLEM_REQUEST_H_
