#ifndef SLUICE_PARTITIONER_PLANNING_PROFILING_LAYER_TIMING_H_
#define SLUICE_PARTITIONER_PLANNING_PROFILING_LAYER_TIMING_H_

#include <vector>

#include "absl/status/statusor.h"
#include "models/device/device.h"
#include "models/kernels/kernels.h"
#include "models/spec/adaptation.h"
#include "models/spec/dtype.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_spec.h"
#include "partitioner/costs/profile.h"

namespace sluice {

struct LayerTimingOptions {
  DType dtype = DType::kFloat32;
  Adaptation adaptation = {};  // what is trained
  int stages = 1;
  int repetitions = 1;  // at most kMostRepetitions
  const Kernels* kernels = &CpuKernels();
  Device* device = &CpuDevice();
};

// Runs all layers of `spec` with their own weights and made-up activations, as training does: for
// each of four micro-batches F of every layer in order, then restore, I and W of every layer
// backwards, at last each one's part of the optimizer's step; `repetitions` such steps after one to
// warm up, and between them as many with I of all layers before W of all. One layer many times over
// would find its weights in the cache, and seem 5 to 15 % faster. [layer].
//   `stages` cores at once each run an equal share of consecutive layers, as the stages of a
// pipeline do: a core's own cache then holds what it holds in training, and the memory is shared
// as it is there. On a device that queues its work, a step is queued as a whole, and timed by
// events. InvalidArgument as MakeLayer, or when there are fewer layers than stages;
// ResourceExhausted when the device has too little memory.
absl::StatusOr<std::vector<LayerTimings>> TimeLayers(const ModelSpec& spec, const BatchShape& batch,
                                                     const LayerTimingOptions& options);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_PROFILING_LAYER_TIMING_H_
