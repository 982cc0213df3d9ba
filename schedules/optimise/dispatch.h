#ifndef SLUICE_SCHEDULES_OPTIMISE_DISPATCH_H_
#define SLUICE_SCHEDULES_OPTIMISE_DISPATCH_H_

#include <limits>
#include <vector>

#include "schedules/optimise/problem.h"

namespace sluice::optimise {

constexpr double kNever = std::numeric_limits<double>::infinity();

// How a rank chooses what to run next, out of what has arrived.
struct DispatchRules {
  // How many micro-batches a stage may have between its F and its I, in units of those that arrive
  // while one goes on to the last stage and comes back.
  double in_flight = kNever;
  // Rather than start a W that would make an F or I wait, a rank waits itself when that takes at
  // most this share of the W's duration, and keeps the rank's idle time after its first action
  // below `idle_budget`.
  double patience = 0;
  double idle_budget = kNever;
  // The same for an F that would make an I wait.
  double forward_patience = 0;
  // When an F and an I have both arrived: F first.
  bool forward_first = false;
  // Micro-batches enter the pipeline at least this share of the busiest rank's work on one apart,
  // after `burst` of them; 0: at once.
  double pace = 0;
  int burst = 0;
  // The later half of the stages may have this many times the micro-batches in flight.
  double late_share = 1;
  // Of several stages' F (I): the stage nearest to the loss (to the input) first.
  bool deep_first = true;

  // Above 0: not by the preferences above, but what comes first on the way of its micro-batch,
  // each taken to start a cycle (the busiest rank's work on one) after the one before and to be
  // under way this many times as long as it would be alone. What is in flight follows: as many as
  // start meanwhile, and `spare` more. Keeps a full rank busy in little memory.
  double slowness = 0;
  int spare = 0;
  // W this many cycles later than right after its I, where nothing else lacks its room.
  double late_weights = 0;
  // Rather than start an action, a rank waits for one that comes before it and arrives within this
  // share of the action's duration.
  double way_patience = 0;
};

struct Schedule {
  Order order;
  double value = kNever;  // max over ranks of end - grace
};

// Runs all ranks along one clock; each takes, whenever it is free, the next action by the rules. W
// run in gaps, when memory is short, and at the end. Always completes, within the limits.
// O(actions * (log ranks + chunks^2)).
Schedule Dispatch(const Problem& problem, const DispatchRules& rules);

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_DISPATCH_H_
