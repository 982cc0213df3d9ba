#ifndef SLUICE_PIPELINE_TRAIN_DIAGNOSIS_H_
#define SLUICE_PIPELINE_TRAIN_DIAGNOSIS_H_

#include <string>

#include "absl/status/statusor.h"
#include "comm/communicator.h"
#include "pipeline/run/executor.h"
#include "pipeline/train/step_report.h"

namespace sluice {

// Of the first bad value that each rank found, the one that made the others bad: forwards before
// gradients, then the lowest micro-batch, then the first layer in the direction in which values
// flow. The same on every rank.
absl::StatusOr<NonFinite> FirstNonFinite(const NonFinite& mine, Communicator& communicator,
                                         absl::Duration timeout);

// What to try against values that are not finite, for the end of a message.
inline constexpr char kLowerRate[] = "; try a lower --lr, --clip, or a longer --warmup";

// FailedPrecondition: what was not finite, and where it began. `state`: the tensor of weights or
// optimizer state that was not finite before the step; empty: none.
absl::Status DescribeNonFinite(const NonFinite& first, const std::string& state, int64_t step,
                               const StepReport& report, const RunPlan& plan);
// The same of an evaluation after `step` steps, whose loss has become `loss`.
absl::Status DescribeNonFiniteEvaluation(const NonFinite& first, const std::string& state,
                                         int64_t step, double loss, const RunPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_DIAGNOSIS_H_
