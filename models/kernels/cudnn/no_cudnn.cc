#include <cstdlib>

#include "models/kernels/cudnn/attention.h"

namespace sluice::cudnn {

absl::Status PrepareAttention() {
  return absl::FailedPreconditionError(
      "this build has no cuDNN: there was no cudnn.h beside CUDA's headers");
}

std::unique_ptr<Attention> MakeAttention(const AttentionShape&) { std::abort(); }

}  // namespace sluice::cudnn
