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

// A decoder's layer that continues one sequence by `rows` tokens, of at most `positions`: where p
// tokens came before, a call's `first_position` is p, and its `starts` -p for each row. Forward and
// Logits only. `kernels` must outlive it. In bf16 its matrices and tables are bf16, too, and read
// as they are stored; its vectors are fp32. InvalidArgument as MakeLayer, or where the positions
// are not 1 to the model's.
absl::StatusOr<std::unique_ptr<Layer>> MakeCachedLayer(const ModelSpec& spec, int index,
                                                       int64_t rows, int64_t positions, DType dtype,
                                                       const Kernels& kernels);

}  // namespace sluice

#endif  // SLUICE_MODELS_LAYERS_CACHED_LAYER_H_
