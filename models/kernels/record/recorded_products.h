#ifndef SLUICE_MODELS_KERNELS_RECORD_RECORDED_PRODUCTS_H_
#define SLUICE_MODELS_KERNELS_RECORD_RECORDED_PRODUCTS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "models/kernels/kernels.h"

// The objects of RecordedKernels().
namespace sluice::record {

std::unique_ptr<Linear> MakeLinear(const LinearShape& shape);
// InvalidArgument as CudaKernels().
absl::StatusOr<std::unique_ptr<Attention>> MakeAttention(const AttentionShape& shape);
absl::StatusOr<std::unique_ptr<Attention>> MakeCudnnAttention(const AttentionShape& shape);

}  // namespace sluice::record

#endif  // SLUICE_MODELS_KERNELS_RECORD_RECORDED_PRODUCTS_H_
