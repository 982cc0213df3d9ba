#ifndef SLUICE_TOOLS_PLAN_LAYER_MEMORY_H_
#define SLUICE_TOOLS_PLAN_LAYER_MEMORY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "models/kernels/kernels.h"
#include "models/spec/model_spec.h"
#include "partitioner/costs/layer_cost.h"
#include "partitioner/partition_problem.h"
#include "pipeline/compile/predict_memory.h"
#include "schedules/timetable.h"

namespace sluice {

// One entry a layer, with its name, parameters and bytes as its implementation declares them; no
// seconds. What a stage needs by these bytes is at most what the run will allocate: alignment,
// messages ahead of their use and the packing of buffers come on top (see RunMemory).
absl::StatusOr<std::vector<LayerCost>> DeclaredCosts(const ModelSpec& spec, const BatchShape& batch,
                                                     DType dtype, OptimizerKind optimizer,
                                                     const Kernels& kernels = CpuKernels());

// [rank of the pipeline] bytes that a run with this plan allocates, to the byte; of the replica
// that allocates most, which may have a few bytes more of what is shared out.
absl::StatusOr<std::vector<int64_t>> RunMemory(const ModelSpec& spec, const BatchShape& batch,
                                               DType dtype, OptimizerKind optimizer,
                                               const Timetable& timetable,
                                               const StageAssignment& assignment, int replicas = 1,
                                               int zero = 0, const Kernels& kernels = CpuKernels());

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_LAYER_MEMORY_H_
