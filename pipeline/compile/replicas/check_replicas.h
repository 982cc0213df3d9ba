#ifndef SLUICE_PIPELINE_COMPILE_REPLICAS_CHECK_REPLICAS_H_
#define SLUICE_PIPELINE_COMPILE_REPLICAS_CHECK_REPLICAS_H_

#include "absl/status/status.h"
#include "pipeline/compile/plan/run_plan.h"

namespace sluice {

// InvalidArgument where RunRequest::stage_members does not fit the stages of `table`. Checked before
// a StageDeal is made of it.
absl::Status CheckStageMembers(const RunRequest& request, const Timetable& table);

// InvalidArgument where replicas of the pipeline, or members of stages, do not fit the timetable,
// the groups in which gradients are summed, or each other.
absl::Status CheckReplicas(const RunPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_REPLICAS_CHECK_REPLICAS_H_
