#ifndef SLUICE_PIPELINE_RUN_DIAGNOSIS_H_
#define SLUICE_PIPELINE_RUN_DIAGNOSIS_H_

#include "absl/status/statusor.h"
#include "comm/communicator.h"
#include "pipeline/run/executor.h"
#include "pipeline/run/step_report.h"

namespace sluice {

// Of the first bad value that each rank found, the one that made the others bad: forwards before
// gradients, then the lowest micro-batch, then the first layer in the direction in which values
// flow. The same on every rank.
absl::StatusOr<NonFinite> FirstNonFinite(const NonFinite& mine, Communicator& communicator,
                                         absl::Duration timeout);

// FailedPrecondition: what was not finite, and where it began.
absl::Status DescribeNonFinite(const NonFinite& first, int64_t step, const StepReport& report,
                               const RunPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_DIAGNOSIS_H_
