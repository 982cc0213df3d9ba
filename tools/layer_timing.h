#ifndef SLUICE_TOOLS_LAYER_TIMING_H_
#define SLUICE_TOOLS_LAYER_TIMING_H_

#include "absl/status/statusor.h"
#include "models/spec.h"
#include "partitioner/profile.h"

namespace sluice {

// Runs layer `index` of `spec` on one core with its own weights and made-up activations,
// `repetitions` times after once to warm up: F, restore, I and W in turn, as training would call
// them. InvalidArgument as MakeLayer; ResourceExhausted when the machine has too little memory for
// it.
absl::StatusOr<LayerTimings> TimeLayer(const ModelSpec& spec, int index, const BatchShape& batch,
                                       DType dtype, int repetitions);

}  // namespace sluice

#endif  // SLUICE_TOOLS_LAYER_TIMING_H_
