#ifndef SLUICE_TOOLS_LAYER_TIMING_H_
#define SLUICE_TOOLS_LAYER_TIMING_H_

#include <vector>

#include "absl/status/statusor.h"
#include "models/spec.h"
#include "partitioner/profile.h"

namespace sluice {

// Runs all layers of `spec` on one core with their own weights and made-up activations, as training
// does: F of every layer in order, then restore, I and W of every layer backwards, then each one's
// part of the optimizer's step; `repetitions` times after once to warm up. One layer many times
// over would find its weights in the cache, and seem 5 to 15 % faster. [layer]. InvalidArgument as
// MakeLayer; ResourceExhausted when the machine has too little memory.
absl::StatusOr<std::vector<LayerTimings>> TimeLayers(const ModelSpec& spec, const BatchShape& batch,
                                                     DType dtype, int repetitions);

}  // namespace sluice

#endif  // SLUICE_TOOLS_LAYER_TIMING_H_
