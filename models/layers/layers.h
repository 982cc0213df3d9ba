#ifndef SLUICE_MODELS_LAYERS_LAYERS_H_
#define SLUICE_MODELS_LAYERS_LAYERS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "models/layers/linear_layer.h"
#include "models/spec/head_blocks.h"

namespace sluice {

// One constructor for each kind of layer; MakeLayer picks. Each requires a model that
// CheckTrainable lets pass, and a batch that fits it.

// Token + position embedding: [rows] tokens -> [rows, dim].
std::unique_ptr<Layer> MakeEmbedding(const DecoderConfig& config, const LayerContext& context);
// Block `block` (counted from 0): [rows, dim] -> [rows, dim]. InvalidArgument where the
// kernels' attention does not take its heads.
absl::StatusOr<std::unique_ptr<Layer>> MakeDecoderBlock(const DecoderConfig& config, int block,
                                                        const LayerContext& context);
// Final norm, linear map to the vocabulary and cross-entropy: [rows, dim] -> loss.
std::unique_ptr<Layer> MakeHead(const DecoderConfig& config, const LayerContext& context);
// The same, in the given blocks. Requires that they are enough for all rows, and that in more than
// one there are fewer rows of padding than of the micro-batch.
std::unique_ptr<Layer> MakeHead(const DecoderConfig& config, const LayerContext& context,
                                const HeadBlocks& blocks);
// Linear map `index` of an MLP (counted from 0) with its ReLU: [rows, in] -> [rows, out]; the last
// one ends in cross-entropy instead.
std::unique_ptr<Layer> MakeDense(const MlpConfig& config, int index, const LayerContext& context);

}  // namespace sluice

#endif  // SLUICE_MODELS_LAYERS_LAYERS_H_
