#ifndef SLUICE_PARTITIONER_PLANNING_ANSWER_RUN_MEMORY_H_
#define SLUICE_PARTITIONER_PLANNING_ANSWER_RUN_MEMORY_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "models/kernels/kernels.h"
#include "models/spec/adaptation.h"
#include "models/spec/dtype.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_spec.h"
#include "partitioner/partition_problem.h"
#include "pipeline/compile/plan/rank_memory.h"
#include "schedules/timetable.h"

namespace sluice {

// [rank of the pipeline] bytes that a run with this plan allocates, to the byte; of the replica
// that allocates most, which may have a few bytes more of what is shared out. `adaptation`,
// `documents` and `mirror` as in RunRequest. DeadlineExceeded once `stop`, which is asked from
// several threads and may be empty, says so: for thousands of ranks it takes seconds.
absl::StatusOr<std::vector<int64_t>> RunMemory(
    const ModelSpec& spec, const BatchShape& batch, DType dtype, OptimizerKind optimizer,
    const Timetable& timetable, const StageAssignment& assignment, int replicas = 1, int zero = 0,
    const Kernels& kernels = CpuKernels(), const Adaptation& adaptation = {},
    bool documents = false, bool mirror = false, const std::function<bool()>& stop = {});

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_ANSWER_RUN_MEMORY_H_
