#ifndef SLUICE_MODELS_LAYERS_ADAPTED_LAYERS_H_
#define SLUICE_MODELS_LAYERS_ADAPTED_LAYERS_H_

#include <vector>

#include "models/spec/adaptation.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_spec.h"

namespace sluice {

// What the layers of a model cost that is trained as `adaptation` says: DescribeLayers, but for W of
// frozen maps, which does nothing, and the products of adapters, of which F, I and W each have two.
// Parameters are the model's, without adapters. Requires a model that trains (trainable.h).
std::vector<LayerSpec> DescribeAdapted(const ModelSpec& spec, const BatchShape& batch,
                                       const Adaptation& adaptation);
// As FlopsPerMicroBatch.
double AdaptedFlopsPerMicroBatch(const ModelSpec& spec, const BatchShape& batch,
                                 const Adaptation& adaptation);

}  // namespace sluice

#endif  // SLUICE_MODELS_LAYERS_ADAPTED_LAYERS_H_
