#ifndef SLUICE_PARTITIONER_PLANNING_ANSWER_SEARCH_H_
#define SLUICE_PARTITIONER_PLANNING_ANSWER_SEARCH_H_

#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "partitioner/planning/question/progress.h"
#include "partitioner/planning/question/question.h"
#include "partitioner/planning/race/joint_plan.h"
#include "partitioner/planning/sources/source.h"

namespace sluice {

// What `question` asks of the layers of `source`, which must outlive it. InvalidArgument names the
// flags that do not fit together.
absl::StatusOr<JointRequest> MakeJointRequest(const PlanQuestion& question,
                                              const PlanSource& source);

// A callback that answers true once `seconds` have gone by, or `stop` (which may be empty) says so;
// empty without either, where years are no limit.
std::function<bool()> StopAfter(const std::optional<double>& seconds,
                                const std::function<bool()>& stop);

// The best plan, with the bytes that a run allocates where sluice runs the model (FitRun). Errors
// as MakeJointPlan.
absl::StatusOr<JointPlan> FindPlan(const PlanQuestion& question, const PlanSource& source,
                                   const JointRequest& request, const ProgressCallback& progress);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_ANSWER_SEARCH_H_
