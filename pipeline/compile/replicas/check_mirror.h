#ifndef SLUICE_PIPELINE_COMPILE_REPLICAS_CHECK_MIRROR_H_
#define SLUICE_PIPELINE_COMPILE_REPLICAS_CHECK_MIRROR_H_

#include "absl/status/status.h"
#include "pipeline/compile/plan/run_plan.h"

namespace sluice {

// InvalidArgument where ranks shall mirror each other (RunRequest::mirror) and cannot.
absl::Status CheckMirror(const RunPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_REPLICAS_CHECK_MIRROR_H_
