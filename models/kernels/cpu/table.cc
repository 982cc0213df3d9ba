#include "models/kernels/cpu/functions.h"

namespace sluice {

const Kernels& CpuKernels() {
  static constexpr Kernels kTable = {
      .device = "cpu",
      .make_linear = cpu::MakeLinear,
      .make_attention = cpu::MakeAttention,
      .embedding_forward = cpu::EmbeddingForward,
      .embedding_backward = cpu::EmbeddingBackward,
      .layer_norm_forward = cpu::LayerNormForward,
      .layer_norm_backward = cpu::LayerNormBackward,
      .activation_forward = cpu::ActivationForward,
      .activation_backward = cpu::ActivationBackward,
      .cross_entropy = cpu::CrossEntropy,
      .accumulate = cpu::Accumulate,
      .sum_of_squares = cpu::SumOfSquares,
      .all_finite = cpu::AllFinite,
      .adamw = cpu::AdamW,
      .sgd = cpu::Sgd,
      .copy = cpu::Copy,
  };
  return kTable;
}

}  // namespace sluice
