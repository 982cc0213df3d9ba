#ifndef SLUICE_SCHEDULES_OPTIMISE_PROBLEM_ONE_RANK_H_
#define SLUICE_SCHEDULES_OPTIMISE_PROBLEM_ONE_RANK_H_

#include "schedules/optimise/problem/problem.h"
#include "schedules/optimise/problem/relaxation.h"

namespace sluice::optimise {

// The problem of one rank by itself: it does one thing at a time, within its memory, while the
// others run everything as soon as its inputs are there, and no earlier than `whole` knows.
// Micro-batches so arrive, and come back, after the least time. No order of the problem that
// `whole` relaxes, which must fuse nothing, has a lower objective than the best of this one.
Problem OneRankOf(const Relaxation& whole, int rank);

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_PROBLEM_ONE_RANK_H_
