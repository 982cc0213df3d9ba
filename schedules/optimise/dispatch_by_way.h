#ifndef SLUICE_SCHEDULES_OPTIMISE_DISPATCH_BY_WAY_H_
#define SLUICE_SCHEDULES_OPTIMISE_DISPATCH_BY_WAY_H_

#include "schedules/optimise/dispatch.h"

namespace sluice::optimise {

// Dispatch for rules with `slowness`.
Schedule DispatchByWay(const Problem& problem, const DispatchRules& rules);

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_DISPATCH_BY_WAY_H_
