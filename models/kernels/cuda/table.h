#ifndef SLUICE_MODELS_KERNELS_CUDA_TABLE_H_
#define SLUICE_MODELS_KERNELS_CUDA_TABLE_H_

#include "models/kernels/cuda/functions.h"

namespace sluice::cuda {

// All kernels that run without cuBLASLt and without the instructions of attention; the emulation of
// the tests has them too.
constexpr Kernels TableWithoutProducts(const char* device) {
  return {
      .device = device,
      .master_weights = MasterWeights::kSplit,
      .head_limits = kGpuHead,
      .make_linear = nullptr,
      .make_attention = nullptr,
      .attend_cached = AttendCached,
      .attend_cached_workspace = AttendCachedWorkspace,
      .embedding_forward = EmbeddingForward,
      .embedding_backward = EmbeddingBackward,
      .embedding_backward_workspace = EmbeddingBackwardWorkspace,
      .layer_norm_forward = LayerNormForward,
      .layer_norm_backward = LayerNormBackward,
      .layer_norm_backward_workspace = LayerNormBackwardWorkspace,
      .rms_norm_forward = RmsNormForward,
      .rms_norm_backward = RmsNormBackward,
      .rms_norm_backward_workspace = RmsNormBackwardWorkspace,
      .activation_forward = ActivationForward,
      .activation_backward = ActivationBackward,
      .gated_forward = GatedForward,
      .gated_backward = GatedBackward,
      .rope_table = RopeTable,
      .rope = Rope,
      .rms_norm_rope_forward = RmsNormRopeForward,
      .rms_norm_rope_backward = RmsNormRopeBackward,
      .cross_entropy = CrossEntropy,
      .cross_entropy_workspace = CrossEntropyWorkspace,
      .soft_cap = SoftCap,
      .dropout = Dropout,
      .scale = Scale,
      .column_sums = ColumnSums,
      .column_sums_workspace = ColumnSumsWorkspace,
      .accumulate = Accumulate,
      .block_squares = BlockSquares,
      .add_in_groups = AddInGroups,
      .all_finite = AllFinite,
      .hash = Hash,
      .adamw = AdamW,
      .sgd = Sgd,
      .copy = Copy,
  };
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_TABLE_H_
