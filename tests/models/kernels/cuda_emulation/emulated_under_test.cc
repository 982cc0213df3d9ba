// CUDA's kernels but for products and attention, their bodies and launches, on the CPU.
#include <cuda_runtime.h>

#include <cstdlib>

#include "models/device/cuda_error.h"
#include "models/kernels/cuda/functions.h"
#include "tests/models/kernels/kernels_under_test.h"

namespace sluice {

uint64_t emulation::launch_seed = 1;

// What launches ask of the device.
void UseDeviceOf(cudaStream_t) {}
void NoteLastCudaError(absl::string_view) {}

const Kernels& KernelsUnderTest() {
  static constexpr Kernels kTable = {
      .device = "CUDA's bodies on the CPU",
      .make_linear = nullptr,
      .make_attention = nullptr,
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
