#include "models/kernels/cpu/functions.h"

namespace sluice {

const Kernels& CpuKernels() {
  static constexpr Kernels kTable = {
      .device = "cpu",
      .make_linear = cpu::MakeLinear,
      .make_attention = cpu::MakeAttention,
      .embedding_forward = cpu::EmbeddingForward,
      .embedding_backward = cpu::EmbeddingBackward,
      .embedding_backward_workspace = cpu::NoWorkspace,
      .layer_norm_forward = cpu::LayerNormForward,
      .layer_norm_backward = cpu::LayerNormBackward,
      .layer_norm_backward_workspace = cpu::NoWorkspace,
      .rms_norm_forward = cpu::RmsNormForward,
      .rms_norm_backward = cpu::RmsNormBackward,
      .rms_norm_backward_workspace = cpu::NoWorkspace,
      .activation_forward = cpu::ActivationForward,
      .activation_backward = cpu::ActivationBackward,
      .cross_entropy = cpu::CrossEntropy,
      .cross_entropy_workspace = cpu::NoWorkspace,
      .accumulate = cpu::Accumulate,
      .block_squares = cpu::BlockSquares,
      .add_in_groups = cpu::AddInGroups,
      .all_finite = cpu::AllFinite,
      .adamw = cpu::AdamW,
      .sgd = cpu::Sgd,
      .copy = cpu::Copy,
  };
  return kTable;
}

}  // namespace sluice
