#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/kernels/cuda_kernels.h"

namespace sluice {

absl::Status CheckCudaAttention(const AttentionShape& shape) {
  constexpr int64_t kWidest = 256;  // attention_plain_tile.cuh: more does not fit in sm_80
  const int64_t width = shape.dim / shape.heads;
  if (width <= kWidest) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--device cuda: heads of ", width,
                                                 " values; attention there takes at most ", kWidest,
                                                 "; take more heads, or --device cpu"));
}

absl::Status CheckCudnnAttention(const AttentionShape& shape) {
  constexpr int64_t kWidest = 128, kMultiple = 8;
  const int64_t width = shape.dim / shape.heads;
  if (shape.dtype == DType::kBFloat16 && width <= kWidest && width % kMultiple == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "cuDNN's attention takes bf16 heads of at most %d values, a multiple of %d, not %s heads of "
      "%d; take --attention sluice%s",
      kWidest, kMultiple, DTypeName(shape.dtype), width,
      shape.dtype == DType::kBFloat16 ? "" : ", or --dtype bf16"));
}

}  // namespace sluice
