#ifndef SLUICE_PIPELINE_COMPILE_COMPILE_RUN_H_
#define SLUICE_PIPELINE_COMPILE_COMPILE_RUN_H_

#include "absl/status/statusor.h"
#include "pipeline/compile/plan/run_plan.h"

namespace sluice {

// InvalidArgument where timetable, partition, policies, groups, steps and replicas do not fit each
// other.
absl::StatusOr<RunPlan> CompileRun(const RunRequest& request);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_COMPILE_RUN_H_
