#ifndef SLUICE_PARTITIONER_SEARCH_LOCAL_SEARCH_H_
#define SLUICE_PARTITIONER_SEARCH_LOCAL_SEARCH_H_

#include <cstdint>
#include <functional>

#include "partitioner/bounds/step_model.h"
#include "partitioner/memory/feasible.h"
#include "partitioner/partition_problem.h"

namespace sluice {

// An assignment and its step time.
struct TimedAssignment {
  StageAssignment assignment;
  double seconds = 0;
};

// Improves `start`, which must fit: moves that shorten all long chains of actions known
// (chain_descent.h) lead to an assignment, which is simulated; where it is no better, the chain
// that decides it joins those known. Stops when no move helps, `*steps` reaches `budget` or `stop`
// says so, with an assignment that fits and is no slower than `start`. Adds the actions simulated
// to `*steps`.
TimedAssignment Improve(const PartitionProblem& problem, const Feasible& feasible,
                        TimedAssignment start, int64_t budget, StepModel* model, int64_t* steps,
                        const std::function<bool()>& stop = {});

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_SEARCH_LOCAL_SEARCH_H_
