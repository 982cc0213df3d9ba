#ifndef SLUICE_PIPELINE_COMPILE_REPLICAS_CHECK_AUDIT_H_
#define SLUICE_PIPELINE_COMPILE_REPLICAS_CHECK_AUDIT_H_

#include "absl/status/status.h"
#include "pipeline/compile/plan/run_plan.h"

namespace sluice {

// InvalidArgument where ranks shall audit each other (RunRequest::audit_every) and cannot.
absl::Status CheckAudit(const RunPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_REPLICAS_CHECK_AUDIT_H_
