#ifndef SLUICE_PARTITIONER_LOCAL_SEARCH_H_
#define SLUICE_PARTITIONER_LOCAL_SEARCH_H_

#include <cstdint>

#include "partitioner/feasible.h"
#include "partitioner/partition_problem.h"
#include "partitioner/step_model.h"

namespace sluice {

// An assignment and its step time.
struct TimedAssignment {
  StageAssignment assignment;
  double seconds = 0;
};

// Improves `start`, which must fit, by moving one layer across one boundary, or changing one
// stage's policy, as long as that shortens the step; stops at a local optimum or when `*steps`
// reaches `budget`. Adds the actions simulated to it.
TimedAssignment Improve(const PartitionProblem& problem, const Feasible& feasible,
                        TimedAssignment start, int64_t budget, StepModel* model, int64_t* steps);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_LOCAL_SEARCH_H_
