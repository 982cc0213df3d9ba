#ifndef SLUICE_PARTITIONER_PLANNING_QUESTION_PLAN_REQUEST_H_
#define SLUICE_PARTITIONER_PLANNING_QUESTION_PLAN_REQUEST_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "partitioner/workload.h"
#include "schedules/partition.h"

namespace sluice {

enum class PlanObjective : uint8_t { kStep, kBottleneck };

// What is to be planned.
struct PlanRequest : Workload {
  std::optional<std::string> schedule;  // a name of the catalogue; nullopt: any
  int chunks = 0;                       // stages per device; 0: what suits the schedule
  PlanObjective objective = PlanObjective::kStep;
  std::optional<Partition> partition;  // prices this one only

  // Good enough: a plan proved to take at most this much longer, relatively, than the best.
  double gap = 0;
  // Seconds of a plan that is known: one that takes as long or longer is of no interest.
  double cutoff = std::numeric_limits<double>::infinity();
  // Elementary steps that the searches share, as SearchOptions counts them.
  int64_t budget = 600'000'000;
  // Asked now and then, from several threads; true ends the search with what it has.
  std::function<bool()> stop;
  // Only what Megatron-LM runs (CheckForMegatron).
  bool for_megatron = false;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_QUESTION_PLAN_REQUEST_H_
