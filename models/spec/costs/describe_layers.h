#ifndef SLUICE_MODELS_SPEC_COSTS_DESCRIBE_LAYERS_H_
#define SLUICE_MODELS_SPEC_COSTS_DESCRIBE_LAYERS_H_

#include <cstdint>
#include <vector>

#include "models/spec/head_blocks.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_spec.h"

namespace sluice {

// What the layers of a model cost, by its numbers alone: [layer], numbered as ModelSpec says. `head`:
// of the kind of device that runs them. Requires a model that validates (validate.h).
std::vector<LayerSpec> DescribeLayers(const ModelSpec& spec, const BatchShape& batch,
                                      const HeadLimits& head = kProcessorHead);
int64_t ParameterCount(const ModelSpec& spec);
// Matrix-product FLOPs of forward and backward over one micro-batch, of layers described as above
// or by DescribeAdapted (models/layers); recomputation is not counted.
double FlopsPerMicroBatch(const std::vector<LayerSpec>& layers);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_COSTS_DESCRIBE_LAYERS_H_
