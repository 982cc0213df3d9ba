#ifndef SLUICE_PARTITIONER_SEARCH_SEARCH_LIMITS_H_
#define SLUICE_PARTITIONER_SEARCH_SEARCH_LIMITS_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "partitioner/search/partition_answer.h"
#include "partitioner/search/search_options.h"

namespace sluice {

// What a search may still do, and what it has left out.
struct SearchLimits {
  SearchOptions options;
  int64_t steps = 0;  // elementary steps spent
  // The least bound of what was left out; infinite where nothing was.
  double unsearched = std::numeric_limits<double>::infinity();

  // Seconds that a step must stay below to be of interest where the best one known takes
  // `best_seconds`.
  double Target(double best_seconds) const {
    return std::min(best_seconds, options.cutoff) / (1 + options.gap) * (1 - kProofTolerance);
  }
  bool Stopped() const { return options.stop && options.stop(); }
  bool OutOfBudget() const { return steps >= options.budget || Stopped(); }
  void LeaveOut(double bound) { unsearched = std::min(unsearched, bound); }
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_SEARCH_SEARCH_LIMITS_H_
