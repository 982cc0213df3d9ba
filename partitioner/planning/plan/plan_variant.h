#ifndef SLUICE_PARTITIONER_PLANNING_PLAN_PLAN_VARIANT_H_
#define SLUICE_PARTITIONER_PLANNING_PLAN_PLAN_VARIANT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

// A plan for other circumstances, or why there is none.
struct PlanVariant {
  std::string what;         // "10 GiB more memory per device"
  std::string description;  // "zbv, 2 chunks; pipeline 4, 16 micro-batches of 1"
  int64_t bytes = 0;        // of the fullest device
  // Of the objective, and of a step; 0 where there is no plan.
  double seconds = 0, step_seconds = 0;
  std::string why;  // there is none
};

// What was asked for beside the best plan; nullopt where it was not.
struct PlanVariants {
  std::optional<std::vector<PlanVariant>> pareto;   // the fastest plan for each amount of memory
  std::optional<std::vector<PlanVariant>> what_if;  // with other devices, memory or bandwidth
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_PLAN_PLAN_VARIANT_H_
