#include "models/kernels/cudnn/attention.h"

namespace sluice::cudnn {

absl::Status PrepareAttention() {
  return absl::FailedPreconditionError(
      "this build has no cuDNN: there was no cudnn.h beside CUDA's headers");
}

absl::StatusOr<std::unique_ptr<Attention>> MakeAttention(const AttentionShape&) {
  return PrepareAttention();
}

}  // namespace sluice::cudnn
