#ifndef SLUICE_SCHEDULES_OPTIMISE_DISPATCH_DISPATCH_RULES_H_
#define SLUICE_SCHEDULES_OPTIMISE_DISPATCH_DISPATCH_RULES_H_

#include <variant>

#include "schedules/optimise/problem/schedule.h"

// How a rank chooses what to run next, out of the actions whose inputs have arrived: one of two
// sets of rules.
namespace sluice::optimise {

// The first set prefers one kind of action to another.
struct Preferences {
  // How many micro-batches a stage may have between its F and its I, as a multiple of those that
  // arrive while one micro-batch goes on to the last stage and comes back.
  double in_flight = kNever;
  // Before a W that would make an F or I wait, the rank waits for that action instead, if the wait
  // is at most this share of the duration of the W, and if the idle time of the rank after its
  // first action stays below `idle_budget`.
  double patience = 0;
  double idle_budget = kNever;
  // The same for an F that would make an I wait.
  double forward_patience = 0;
  // When both an F and an I have arrived, run the F first.
  bool forward_first = false;
  // After the first `burst` micro-batches, the time between the starts of two micro-batches is at
  // least this share of the work of the busiest rank on one of them; 0: no minimum.
  double pace = 0;
  int burst = 0;
  // The later half of the stages may have this many times the micro-batches in flight.
  double late_share = 1;
  // When F (or I) of several stages have arrived, run the one whose stage is nearest to the loss
  // (or, for I, to the input) first.
  bool deep_first = true;
  // Where B is shorter than I and W: the first `split_first` micro-batches per stage from this one
  // to the last, and the last `split_last` per stage from the first one to this, run I and W all
  // the same, so that gradients come sooner to idle stages; the others run B.
  double split_first = kNever;
  double split_last = kNever;
};

// The second set gives every action a due time and runs the earliest one first. Micro-batch k
// starts k cycles after the first one, where a cycle is the work of the busiest rank on one
// micro-batch, and takes `slowness` times as long as it would alone. Keeps a full rank busy in
// little memory.
struct DueTimes {
  double slowness = 1;
  // A stage may have as many micro-batches in flight as start while one of them is between its F
  // and its I there, and `spare` more.
  int spare = 0;
  // Delay each W by this many cycles after its I, unless memory is needed.
  double late_weights = 0;
  // Before an action, the rank waits for another one that is due earlier, if that arrives within
  // this share of the duration of the action.
  double patience = 0;
};

using DispatchRules = std::variant<Preferences, DueTimes>;

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_DISPATCH_DISPATCH_RULES_H_
