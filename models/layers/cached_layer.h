#ifndef SLUICE_MODELS_LAYERS_CACHED_LAYER_H_
#define SLUICE_MODELS_LAYERS_CACHED_LAYER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "models/layers/layer.h"

namespace sluice {

// The tensor of a block in which keys and values of all earlier tokens lie (cached_attention.h). It
// lives as long as the sequence; all other tensors as long as one call of Forward.
inline constexpr char kCacheTensor[] = "cache";

// A decoder's layer that continues one sequence by `rows` tokens, of at most `positions`: a call's
// `starts` is -p for each row, where p tokens came before. Forward and Logits only, on the CPU. In
// bf16 its matrices and tables are bf16, too, and read as they are stored; its vectors are fp32.
// InvalidArgument as MakeLayer, or where the positions are not 1 to the model's.
absl::StatusOr<std::unique_ptr<Layer>> MakeCachedLayer(const ModelSpec& spec, int index,
                                                       int64_t rows, int64_t positions,
                                                       DType dtype);

// How many tokens came before those of `call`.
inline int64_t FirstPosition(const LayerCall& call) { return -int64_t{call.starts[0]}; }

}  // namespace sluice

#endif  // SLUICE_MODELS_LAYERS_CACHED_LAYER_H_
