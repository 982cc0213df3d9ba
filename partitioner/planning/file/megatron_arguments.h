#ifndef SLUICE_PARTITIONER_PLANNING_FILE_MEGATRON_ARGUMENTS_H_
#define SLUICE_PARTITIONER_PLANNING_FILE_MEGATRON_ARGUMENTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/plan/plan_context.h"

namespace sluice {

// The arguments with which Megatron-LM (core 0.16) runs the plan, one per line, and nothing that a
// shell would expand: parallel sizes, --pipeline-model-parallel-layout, batch sizes, recomputation,
// the optimizer where it is not Adam, and how replicas sum gradients and divide its state. The
// layout has the layers of each stage as letters, with | between stages: E embedding, t transformer
// block, m block that predicts ahead, L final norm and loss. The number of stages per rank follows
// from it; the number of replicas from the processes started. InvalidArgument says what Megatron-LM
// does not have: a schedule other than 1F1B and interleaved, several recompute policies, gradients
// shared out over replicas (ZeRO 2), SGD whose state is shared out, a graph of operations, blocks
// that predict ahead in several stages or before the last stage of their rank.
absl::StatusOr<std::string> FormatMegatronArguments(const Plan& plan, const PlanContext& context);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_FILE_MEGATRON_ARGUMENTS_H_
