#ifndef SLUICE_PARTITIONER_PLANNING_ANSWER_VARIANTS_H_
#define SLUICE_PARTITIONER_PLANNING_ANSWER_VARIANTS_H_

#include <vector>

#include "partitioner/planning/plan/plan_variant.h"
#include "partitioner/planning/question/progress.h"
#include "partitioner/planning/question/question.h"
#include "partitioner/planning/race/joint_plan.h"
#include "partitioner/planning/sources/source.h"

namespace sluice {

// What more or fewer devices, more memory or bandwidth would change, beside `best`. With more
// memory or bandwidth alone nothing is slower than `best`, however early the search for it ends.
std::vector<PlanVariant> WhatIf(const PlanQuestion& question, const PlanSource& source,
                                const JointPlan& best, const ProgressCallback& progress);
// The fastest plan for every amount of memory, from what the best plan needs downwards, until
// nothing fits; at most some 20, each at least 2 % smaller than the one before.
std::vector<PlanVariant> ParetoFront(const PlanQuestion& question, const PlanSource& source,
                                     const ProgressCallback& progress);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_ANSWER_VARIANTS_H_
