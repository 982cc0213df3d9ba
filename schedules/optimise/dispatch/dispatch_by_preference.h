#ifndef SLUICE_SCHEDULES_OPTIMISE_DISPATCH_DISPATCH_BY_PREFERENCE_H_
#define SLUICE_SCHEDULES_OPTIMISE_DISPATCH_DISPATCH_BY_PREFERENCE_H_

#include <vector>

#include "schedules/optimise/dispatch/dispatch_rules.h"
#include "schedules/optimise/problem/problem.h"
#include "schedules/optimise/problem/schedule.h"

namespace sluice::optimise {

// Dispatch (dispatch.h) for the first set of rules.
Schedule DispatchByPreference(const Problem& problem, const Preferences& rules,
                              const std::vector<char>& prompt_weights);

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_DISPATCH_DISPATCH_BY_PREFERENCE_H_
