#ifndef SLUICE_MODELS_KERNELS_CUDNN_ATTENTION_PLANS_H_
#define SLUICE_MODELS_KERNELS_CUDNN_ATTENTION_PLANS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "models/kernels/cudnn/attention_graph.h"
#include "models/kernels/cudnn/attention_workspace.h"
#include "models/kernels/cudnn/plan.h"

namespace sluice::cudnn {

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
