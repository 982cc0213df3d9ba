#ifndef SLUICE_PIPELINE_COMPILE_REPLICAS_CHECK_REPLICAS_H_
#define SLUICE_PIPELINE_COMPILE_REPLICAS_CHECK_REPLICAS_H_

#include "absl/status/status.h"
#include "pipeline/compile/plan/run_plan.h"

namespace sluice {

// InvalidArgument where RunRequest::stage_replicas is no deal for the stages of `table`: what must
// hold before it is made.
absl::Status CheckStageReplicas(const RunRequest& request, const Timetable& table);

// InvalidArgument where replicas of the pipeline, or of stages, do not fit the timetable, the
// groups in which gradients are summed, or each other.
absl::Status CheckReplicas(const RunPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_REPLICAS_CHECK_REPLICAS_H_
