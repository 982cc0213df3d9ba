#ifndef SLUICE_SCHEDULES_OPTIMISE_DISPATCH_DISPATCH_BY_DUE_TIME_H_
#define SLUICE_SCHEDULES_OPTIMISE_DISPATCH_DISPATCH_BY_DUE_TIME_H_

#include <vector>

#include "schedules/optimise/dispatch/dispatch_rules.h"
#include "schedules/optimise/problem/problem.h"
#include "schedules/optimise/problem/schedule.h"

namespace sluice::optimise {

// Dispatch (dispatch.h) for the second set of rules.
Schedule DispatchByDueTime(const Problem& problem, const DueTimes& rules,
                           const std::vector<char>& prompt_weights);

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_DISPATCH_DISPATCH_BY_DUE_TIME_H_
