#include "models/kernels/cuda/cublaslt.h"
#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda_kernels.h"

namespace sluice {

absl::Status PrepareCudaKernels() { return cuda::LoadCublasLt().status(); }

const Kernels& CudaKernels() {
  static constexpr Kernels kTable = {
      .device = "cuda",
      .make_linear = cuda::MakeLinear,
      .make_attention = cuda::MakeAttention,
      .embedding_forward = cuda::EmbeddingForward,
      .embedding_backward = cuda::EmbeddingBackward,
      .embedding_backward_workspace = cuda::EmbeddingBackwardWorkspace,
      .layer_norm_forward = cuda::LayerNormForward,
      .layer_norm_backward = cuda::LayerNormBackward,
      .layer_norm_backward_workspace = cuda::LayerNormBackwardWorkspace,
      .activation_forward = cuda::ActivationForward,
      .activation_backward = cuda::ActivationBackward,
      .cross_entropy = cuda::CrossEntropy,
      .cross_entropy_workspace = cuda::CrossEntropyWorkspace,
      .accumulate = cuda::Accumulate,
      .block_squares = cuda::BlockSquares,
      .add_in_order = cuda::AddInOrder,
      .all_finite = cuda::AllFinite,
      .adamw = cuda::AdamW,
      .sgd = cuda::Sgd,
      .copy = cuda::Copy,
  };
  return kTable;
}

}  // namespace sluice
