#ifndef SLUICE_MODELS_SPEC_COSTS_DESCRIBE_DECODER_H_
#define SLUICE_MODELS_SPEC_COSTS_DESCRIBE_DECODER_H_

#include <vector>

#include "models/spec/costs/decoder_layer.h"
#include "models/spec/costs/decoder_parts.h"
#include "models/spec/decoder.h"
#include "models/spec/dtype.h"
#include "models/spec/layer_spec.h"

namespace sluice {

// The layers of a decoder, numbered as ModelSpec's: embedding, blocks, [blocks that predict ahead],
// head. `dtype` is that of the activations, and `parts` says what is trained. Input gradients are
// counted through what is frozen, also before the first layer that is trained. Requires a decoder
// that validates (validate.h); where not all is trained, also one that trains (layers/trainable.h).
std::vector<DecoderLayer> DescribeDecoder(const DecoderConfig& config, const BatchShape& batch,
                                          DType dtype, const DecoderKernels& kernels = {},
                                          const TrainedParts& parts = {});

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_COSTS_DESCRIBE_DECODER_H_
