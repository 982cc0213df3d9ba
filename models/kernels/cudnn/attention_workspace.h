#ifndef SLUICE_MODELS_KERNELS_CUDNN_ATTENTION_WORKSPACE_H_
#define SLUICE_MODELS_KERNELS_CUDNN_ATTENTION_WORKSPACE_H_

#include <cstddef>
#include <cstdint>

#include "models/kernels/kernels.h"

namespace sluice::cudnn {

// Work areas in bytes, known without cuDNN, so that memory can be predicted where there is no GPU.
// On Hopper each kernel takes its next tile from a counter there; before the counter the backward
// pass has row_sums, and dS in bf16, padded to tiles of 64 queries and 128 keys.
struct AttentionWorkspace {
  size_t forward = 0;
  size_t row_sums = 0;  // the first part of the backward pass's work area
  size_t backward = 0;
};

inline AttentionWorkspace WorkspaceOf(const AttentionShape& s) {
  constexpr int64_t kCounterBytes = 256;
  constexpr int64_t kQueryTile = 64, kKeyTile = 128;  // rows
  const auto round_up = [](int64_t n, int64_t to) { return (n + to - 1) / to * to; };
  const int64_t heads = s.batch * s.heads;
  const int64_t row_sums = round_up(heads * s.seq * int64_t{sizeof(float)}, kCounterBytes);
  const int64_t dscores = heads * round_up(s.seq, kQueryTile) * round_up(s.seq, kKeyTile) * 2;
  // Of grouped queries, the gradients of keys and of values by each query head.
  const int64_t of_heads =
      s.kv_heads == s.heads ? 0 : 2 * round_up(heads * s.seq * s.width * 2, kCounterBytes);
  return {.forward = kCounterBytes,
          .row_sums = static_cast<size_t>(row_sums),
          .backward = static_cast<size_t>(row_sums + dscores + of_heads + kCounterBytes)};
}

}  // namespace sluice::cudnn

#endif  // SLUICE_MODELS_KERNELS_CUDNN_ATTENTION_WORKSPACE_H_
