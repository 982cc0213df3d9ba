#include "schedules/optimise/dispatch/dispatch.h"

#include <variant>

#include "schedules/optimise/dispatch/dispatch_by_due_time.h"
#include "schedules/optimise/dispatch/dispatch_by_preference.h"

namespace sluice::optimise {

Schedule Dispatch(const Problem& problem, const DispatchRules& rules,
                  const std::vector<char>& prompt_weights) {
  if (const auto* due = std::get_if<DueTimes>(&rules)) {
    return DispatchByDueTime(problem, *due, prompt_weights);
  }
  return DispatchByPreference(problem, std::get<Preferences>(rules), prompt_weights);
}

}  // namespace sluice::optimise
