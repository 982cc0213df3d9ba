#ifndef SLUICE_MODELS_KERNELS_CUDNN_ATTENTION_PLANS_H_
#define SLUICE_MODELS_KERNELS_CUDNN_ATTENTION_PLANS_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "models/kernels/cudnn/attention_graph.h"
#include "models/kernels/cudnn/plan.h"

namespace sluice::cudnn {

// Work areas in bytes, known without cuDNN, so that memory can be predicted where there is no GPU.
// On Hopper each kernel takes its next tile from a counter there; before the counter the backward
// pass has row_sums, and dS in bf16, padded to tiles of 64 queries and 128 keys.
struct AttentionWorkspace {
  size_t forward = 0;
  size_t row_sums = 0;  // the first part of the backward pass's work area
  size_t backward = 0;
};
AttentionWorkspace WorkspaceOf(const AttentionShape& shape);

// Both passes of one shape, ready to be executed by any thread.
struct AttentionPlans {
  AttentionForwardGraph forward_graph;
  AttentionBackwardGraph backward_graph;
  std::unique_ptr<Plan> forward = nullptr, backward = nullptr;
};
// Compiles, which takes about a second. Errors are those of Plan::Make; Internal where cuDNN needs
// a larger work area than predicted.
absl::StatusOr<AttentionPlans> MakeAttentionPlans(const Library& library,
                                                  const AttentionShape& shape,
                                                  const Target& target);

}  // namespace sluice::cudnn

#endif  // SLUICE_MODELS_KERNELS_CUDNN_ATTENTION_PLANS_H_
