#ifndef SLUICE_MODELS_SPEC_DESCRIBE_DECODER_H_
#define SLUICE_MODELS_SPEC_DESCRIBE_DECODER_H_

#include <vector>

#include "models/spec/decoder.h"
#include "models/spec/decoder_layer.h"
#include "models/spec/dtype.h"
#include "models/spec/layer_spec.h"

namespace sluice {

// The layers of a decoder, numbered as ModelSpec's: embedding, blocks, [blocks that predict ahead],
// head. `dtype` is that of the activations. Requires a decoder that validates (validate.h).
std::vector<DecoderLayer> DescribeDecoder(const DecoderConfig& config, const BatchShape& batch,
                                          DType dtype, const DecoderKernels& kernels = {});

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_DESCRIBE_DECODER_H_
