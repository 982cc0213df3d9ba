#ifndef SLUICE_PIPELINE_COMPILE_COMPILE_RUN_H_
#define SLUICE_PIPELINE_COMPILE_COMPILE_RUN_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/compile/plan/run_plan.h"

namespace sluice {

// Calls work(0) to work(n - 1), in any order or at the same time; with an error it may leave some
// out, and the compilation ends with that error.
using ForEach = absl::FunctionRef<absl::Status(size_t n, absl::FunctionRef<void(size_t)> work)>;
absl::Status OneAfterAnother(size_t n, absl::FunctionRef<void(size_t)> work);

// Ranks are compiled as `for_each` says. InvalidArgument where timetable, partition, policies,
// groups, steps and replicas do not fit each other.
absl::StatusOr<RunPlan> CompileRun(const RunRequest& request, ForEach for_each = OneAfterAnother);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_COMPILE_RUN_H_
