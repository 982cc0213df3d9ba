#ifndef SLUICE_PARTITIONER_SEARCH_EXACT_PARTITION_H_
#define SLUICE_PARTITIONER_SEARCH_EXACT_PARTITION_H_

#include <cstdint>
#include <functional>
#include <limits>

#include "absl/status/statusor.h"
#include "partitioner/partition_problem.h"

namespace sluice {

struct SearchOptions {
  // Steps of this many seconds or more are of no interest (another schedule already does better):
  // once it is proved that none is shorter, the search stops, with lower_bound = cutoff and
  // whatever it found that fits.
  double cutoff = std::numeric_limits<double>::infinity();
  // Good enough: an answer that is proved to take at most this much longer, relatively, than the
  // best one ends the search.
  double gap = 0;
  // Elementary steps (an action simulated, a bound computed) before the search stops with what it
  // has. Counted rather than timed, so that the answer does not depend on the machine; some 10^8
  // take a second.
  int64_t budget = 400'000'000;
  // Asked now and then; true ends the search as the budget does. May be empty.
  std::function<bool()> stop;
};

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

// Two step times that differ by less, relatively, are the same.
inline constexpr double kProofTolerance = 1e-9;

// The contiguous partition of the layers into the timetable's stages, and the recompute policy of
// each, whose step (Simulate()'s makespan of this timetable) is shortest among those that fit into
// memory. Branch and bound: see the .cc. InvalidArgument as ValidateProblem; NotFound when nothing
// that fits (below the cutoff) exists, as proved; DeadlineExceeded when the budget ended before
// anything that fits was found.
absl::StatusOr<PartitionAnswer> FindExactPartition(const PartitionProblem& problem,
                                                   const SearchOptions& options = {});

// The other partitioners' objective: the least largest of the stages' forward + backward seconds
// and, on a link of finite bandwidth, the boundaries' 2 * output_bytes / bandwidth (activation and
// its gradient; transfers overlap compute). `seconds` and `lower_bound` are that number; always
// optimal. Memory is that of the timetable, which must have one stage a rank. Errors as above.
absl::StatusOr<PartitionAnswer> FindBottleneckPartition(const PartitionProblem& problem);
// That number for a given assignment.
double BottleneckSeconds(const PartitionProblem& problem, const StageAssignment& assignment);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_SEARCH_EXACT_PARTITION_H_
