#ifndef SLUICE_PARTITIONER_SEARCH_PARTITION_ANSWER_H_
#define SLUICE_PARTITIONER_SEARCH_PARTITION_ANSWER_H_

#include <cstdint>
#include <limits>

#include "partitioner/partition_problem.h"

namespace sluice {

// Two step times that differ by less, relatively, are the same.
inline constexpr double kProofTolerance = 1e-9;

// seconds / lower_bound - 1: how much longer than need be a step can be. Infinite where nothing is
// proved.
inline double RelativeGap(double seconds, double lower_bound) {
  if (seconds <= lower_bound) return 0;
  return lower_bound > 0 ? seconds / lower_bound - 1 : std::numeric_limits<double>::infinity();
}

// What was found, and what was proved.
struct PartitionAnswer {
  StageAssignment assignment;
  double seconds = 0;      // Simulate()'s makespan
  double lower_bound = 0;  // no assignment that fits takes less
  bool optimal = false;    // lower_bound = seconds, up to rounding (kProofTolerance)
  int64_t steps = 0;       // elementary steps spent

  double gap() const { return RelativeGap(seconds, lower_bound); }
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_SEARCH_PARTITION_ANSWER_H_
