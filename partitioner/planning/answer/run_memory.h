#ifndef SLUICE_PARTITIONER_PLANNING_ANSWER_RUN_MEMORY_H_
#define SLUICE_PARTITIONER_PLANNING_ANSWER_RUN_MEMORY_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/compile/plan/run_plan.h"
#include "pipeline/compile/plan/run_request.h"

namespace sluice {

// The run that is asked for, compiled on several threads. DeadlineExceeded once `stop`, which is
// asked from all of them and may be empty, says so: for thousands of ranks it takes seconds.
absl::StatusOr<RunPlan> CompileInTime(const RunRequest& request,
                                      const std::function<bool()>& stop = {});

// [rank of the pipeline] bytes that the run allocates, to the byte; of the replica that allocates
// most, which may have a few bytes more of what is shared out.
std::vector<int64_t> RunMemory(const RunPlan& run);
// The same of a run that is yet to be compiled. Errors as CompileInTime.
absl::StatusOr<std::vector<int64_t>> RunMemory(const RunRequest& request,
                                               const std::function<bool()>& stop = {});

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_ANSWER_RUN_MEMORY_H_
