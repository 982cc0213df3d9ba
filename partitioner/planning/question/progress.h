#ifndef SLUICE_PARTITIONER_PLANNING_QUESTION_PROGRESS_H_
#define SLUICE_PARTITIONER_PLANNING_QUESTION_PROGRESS_H_

#include <functional>
#include <string>

namespace sluice {

// How far a search over settings is.
struct PlanProgress {
  std::string what;  // the variant that is looked for, "twice the bandwidth"; empty: the best plan
  int settings = 0, settings_done = 0;
  double best_seconds = 0;  // infinite before anything was found
  double lower_bound = 0;   // of all settings
};
using ProgressCallback = std::function<void(const PlanProgress&)>;

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_QUESTION_PROGRESS_H_
