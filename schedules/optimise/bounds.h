#ifndef SLUICE_SCHEDULES_OPTIMISE_BOUNDS_H_
#define SLUICE_SCHEDULES_OPTIMISE_BOUNDS_H_

#include <vector>

#include "schedules/optimise/problem.h"
#include "schedules/optimise/relaxation.h"

namespace sluice::optimise {

// One action of a rank: it cannot start before `head`, and `tail` must pass after its end.
struct Job {
  double head;
  double duration;
  double tail;
};

// The least time by which one rank can have done all jobs and their tails, were it allowed to
// interrupt them (Jackson's preemptive schedule; Carlier 1982): no real order does better. Sorts
// the jobs. O(n log n).
double OneRankBound(std::vector<Job>& jobs);

// The largest OneRankBound over the ranks, with the heads and tails of the relaxation.
double RankBound(const Problem& problem, const Relaxation& relaxation);

// What a rank holds, summed over time, is at least what each of its micro-batches must hold on its
// way from F on to the last stage and back, and at most the limit for as long as the rank works.
// Bounds the objective for any number of stages a rank; strong where memory is short and
// micro-batches are many.
double MemoryAreaBound(const Problem& problem);

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_BOUNDS_H_
