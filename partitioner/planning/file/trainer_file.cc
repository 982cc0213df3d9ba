#include "partitioner/planning/file/trainer_file.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sluice {

AskedOfTrainer AskedIn(const PlanContext& context) {
  return {.graph = context.graph,
          .optimizer = context.optimizer,
          .zero = context.zero,
          .mirror = context.mirror,
          .audit_every = context.audit_every};
}

absl::StatusOr<Recompute> OnePolicy(const Plan& plan, absl::string_view trainer) {
  const Recompute policy = plan.stages.front().recompute;
  for (const PlanStage& stage : plan.stages) {
    if (stage.recompute == policy) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(trainer,
                     " has one kind of recomputation for all stages, and this plan has several; "
                     "give --recompute none or full"));
  }
  return policy;
}

}  // namespace sluice
