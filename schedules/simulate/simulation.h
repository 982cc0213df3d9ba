#ifndef SLUICE_SCHEDULES_SIMULATE_SIMULATION_H_
#define SLUICE_SCHEDULES_SIMULATE_SIMULATION_H_

#include <cstddef>
#include <vector>

#include "schedules/action.h"

// The result of simulating a timetable.
namespace sluice {

// The place of an action in a table or a simulation.
struct Spot {
  int rank = -1;
  size_t position = 0;
  friend bool operator==(const Spot&, const Spot&) = default;
};

// Why an action did not start earlier.
struct Cause {
  enum class Kind {
    kStart,    // at time 0: it waited for nothing
    kRank,     // its rank was busy with the action before it
    kMessage,  // the result of `after` on another rank was on its way
    kLink,     // its input waited for its turn on a link that was busy with the result of `after`
  };
  Kind kind = Kind::kStart;
  Spot after;          // the last action to end of all that it waited for
  double idle = 0;     // how long the rank did nothing before it
  double on_link = 0;  // from the end of `after` to its start: latency and transfer
};

struct TimedAction {
  Action action;
  double start = 0;
  double end = 0;
};

struct Simulation {
  // [rank][position]; idle cells are included, with start == end.
  std::vector<std::vector<TimedAction>> rows;
  double makespan = 0;
  // 1 - sum of work / (ranks * makespan).
  double bubble = 0;
  // The longest rank span, from a rank's first start to its last end; span_bubble divides by it
  // instead of by the makespan (what the zero-bubble papers print).
  double span = 0;
  double span_bubble = 0;
  // MakespanLowerBound, and GapOf the makespan: makespan / lower_bound - 1, infinite for bound 0.
  double lower_bound = 0;
  double gap = 0;
  std::vector<double> work;         // [rank] busy time
  std::vector<double> utilisation;  // [rank] work / makespan
  // [rank] most (stage, micro-batch) pairs held at once, from the start of F to the end of B (of
  // W).
  std::vector<int> peak_activations;
  std::vector<double> peak_bytes;          // [rank], empty without bytes
  std::vector<TimedAction> critical_path;  // from a start at time 0 to the makespan
  // Why each of these did not start earlier; FindCause (critical_path.h) says it of any other
  // action.
  std::vector<Cause::Kind> critical_path_why;
};

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_SIMULATE_SIMULATION_H_
