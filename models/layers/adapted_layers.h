#ifndef SLUICE_MODELS_LAYERS_ADAPTED_LAYERS_H_
#define SLUICE_MODELS_LAYERS_ADAPTED_LAYERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "models/spec/adaptation.h"
#include "models/spec/costs/decoder_parts.h"
#include "models/spec/decoder.h"
#include "models/spec/head_blocks.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_spec.h"

namespace sluice {

// A linear map of a decoder's block.
struct LinearMap {
  std::string name;  // of its weight, without ".weight"
  int64_t in = 0;
  int64_t out = 0;
};
// Those of one block, in its order.
std::vector<LinearMap> LinearMapsOf(const DecoderConfig& config, int64_t block);

// What `adaptation` trains, by the names that the config's family has (decoder_names.h). Requires a
// decoder that trains and can be adapted so (trainable.h).
TrainedParts TrainedPartsOf(const DecoderConfig& config, const Adaptation& adaptation);
// All of them, adapters included; of what is tied, once. Requires the same.
int64_t TrainedParameterCount(const DecoderConfig& config, const Adaptation& adaptation);

// What the layers of a model cost that is trained as `adaptation` says: DescribeLayers, but for W
// of frozen maps, which does nothing, and the products of adapters, of which F, I and W each have
// two. Parameters are the model's, without adapters. Requires a model that trains (trainable.h).
std::vector<LayerSpec> DescribeAdapted(const ModelSpec& spec, const BatchShape& batch,
                                       const Adaptation& adaptation,
                                       const HeadLimits& head = kProcessorHead);

}  // namespace sluice

#endif  // SLUICE_MODELS_LAYERS_ADAPTED_LAYERS_H_
