#ifndef SLUICE_SCHEDULES_OPTIMISE_DISPATCH_DISPATCH_H_
#define SLUICE_SCHEDULES_OPTIMISE_DISPATCH_DISPATCH_H_

#include <vector>

#include "schedules/optimise/dispatch/dispatch_rules.h"
#include "schedules/optimise/problem/problem.h"
#include "schedules/optimise/problem/schedule.h"

namespace sluice::optimise {

// Runs all ranks along one clock; whenever a rank is free, it takes the next action by the rules.
// W run in gaps, when memory is short, and at the end. Always completes, within the limits.
// `prompt_weights`: [stage] not 0 where each W must follow its I at once, because it keeps more
// memory than the F did; empty: nowhere.
// O(actions * (log ranks + chunks^2)).
Schedule Dispatch(const Problem& problem, const DispatchRules& rules,
                  const std::vector<char>& prompt_weights = {});

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_DISPATCH_DISPATCH_H_
