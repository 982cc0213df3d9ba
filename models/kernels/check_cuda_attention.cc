#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/kernels/cuda_kernels.h"

namespace sluice {

absl::Status CheckCudaAttention(const AttentionShape& shape) {
  constexpr int64_t kWidest = 256;  // attention_plain_tile.cuh: more does not fit in sm_80
  if (shape.width > kWidest) {
    return absl::InvalidArgumentError(absl::StrCat("--device cuda: heads of ", shape.width,
                                                   " values; attention there takes at most ",
                                                   kWidest, "; take more heads, or --device cpu"));
  }
  return absl::OkStatus();
}

absl::Status CheckCudnnAttention(const AttentionShape& shape) {
  constexpr int64_t kWidest = 128, kMultiple = 8;
  if (shape.dtype != DType::kBFloat16 || shape.width > kWidest || shape.width % kMultiple != 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "cuDNN's attention takes bf16 heads of at most %d values, a multiple of %d, not %s heads "
        "of %d; take --attention sluice%s",
        kWidest, kMultiple, DTypeName(shape.dtype), shape.width,
        shape.dtype == DType::kBFloat16 ? "" : ", or --dtype bf16"));
  }
  if (shape.window == 0 && shape.soft_cap == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "cuDNN's attention takes no window and no soft cap, not a window of %d and a cap of %g; take "
      "--attention sluice",
      shape.window, shape.soft_cap));
}

}  // namespace sluice
