#ifndef SLUICE_PARTITIONER_SEARCH_EXACT_PARTITION_H_
#define SLUICE_PARTITIONER_SEARCH_EXACT_PARTITION_H_

#include "absl/status/statusor.h"
#include "partitioner/partition_problem.h"
#include "partitioner/search/partition_answer.h"
#include "partitioner/search/search_options.h"

namespace sluice {

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
// optimal. Memory is that of the timetable, which must have one stage per rank. Errors as above.
absl::StatusOr<PartitionAnswer> FindBottleneckPartition(const PartitionProblem& problem);
// That number for a given assignment.
double BottleneckSeconds(const PartitionProblem& problem, const StageAssignment& assignment);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_SEARCH_EXACT_PARTITION_H_
