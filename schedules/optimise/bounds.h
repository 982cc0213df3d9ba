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

// The least time by which one rank can have done all jobs and their tails if it may interrupt jobs
// (Jackson's preemptive schedule; Carlier 1982). No order without interruptions does better. Sorts
// the jobs. O(n log n).
double OneRankBound(std::vector<Job>& jobs);

// The largest OneRankBound of all ranks, with the heads and tails of the relaxation.
double RankBound(const Problem& problem, const Relaxation& relaxation);

// The integral over time of what a rank holds is at least the sum, over its micro-batches, of what
// each holds from its F until its gradient comes back from the last stage; and it is at most the
// limit times the time for which the rank works. Holds for any number of stages per rank; strong
// where memory is short and there are many micro-batches.
double MemoryAreaBound(const Problem& problem);

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_BOUNDS_H_
