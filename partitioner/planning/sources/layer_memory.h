#ifndef SLUICE_PARTITIONER_PLANNING_SOURCES_LAYER_MEMORY_H_
#define SLUICE_PARTITIONER_PLANNING_SOURCES_LAYER_MEMORY_H_

#include <vector>

#include "absl/status/statusor.h"
#include "models/kernels/kernels.h"
#include "models/spec/adaptation.h"
#include "models/spec/dtype.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_spec.h"
#include "models/spec/optimizer_kind.h"
#include "partitioner/costs/layer_cost.h"

namespace sluice {

// One entry per layer, with its name, parameters and bytes as its implementation declares them,
// trained as `adaptation` says; no seconds. What a stage needs by these bytes is at most what the
// run will allocate: alignment, messages ahead of their use and the packing of buffers come on top
// (RunMemory counts them).
absl::StatusOr<std::vector<LayerCost>> DeclaredCosts(const ModelSpec& spec, const BatchShape& batch,
                                                     DType dtype, OptimizerKind optimizer,
                                                     const Kernels& kernels = CpuKernels(),
                                                     const Adaptation& adaptation = {});

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_SOURCES_LAYER_MEMORY_H_
