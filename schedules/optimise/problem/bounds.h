#ifndef SLUICE_SCHEDULES_OPTIMISE_PROBLEM_BOUNDS_H_
#define SLUICE_SCHEDULES_OPTIMISE_PROBLEM_BOUNDS_H_

#include <vector>

#include "schedules/optimise/problem/problem.h"
#include "schedules/optimise/problem/relaxation.h"

namespace sluice::optimise {

// The actions of one kind (F, I or W) of one stage, from some micro-batch on. Each cannot start before
// its head, and its tail must pass after its end. Heads never fall and tails never rise along the
// chain.
struct Chain {
  const double* heads;  // [action]
  const double* tails;  // [action]
  double duration;      // of each action
  int actions;
  double left;  // what is left of the first action: its duration, unless it was interrupted
};

// The least time by which one rank can have done all actions of its chains and their tails, were it
// allowed to interrupt them (Jackson's preemptive schedule; Carlier 1982): no real order does better.
// Stops early, with a bound of at least `enough`, when it sees that the bound is not below that.
// Uses the chains up. O(actions * chains).
double OneRankBound(std::vector<Chain>& chains, double enough);

// The largest OneRankBound of all ranks, with the heads and tails of the relaxation.
double RankBound(const Problem& problem, const Relaxation& relaxation);

// The integral over time of what a rank holds is at least the sum, over its micro-batches, of what
// each holds from its F until its gradient comes back from the last stage; and it is at most the
// limit times the time for which the rank works. Holds for any number of stages per rank; strong
// where memory is short and there are many micro-batches.
double MemoryAreaBound(const Problem& problem);

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_PROBLEM_BOUNDS_H_
