#ifndef SLUICE_PARTITIONER_PLANNING_ANSWER_FIT_H_
#define SLUICE_PARTITIONER_PLANNING_ANSWER_FIT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "partitioner/planning/question/question.h"
#include "partitioner/planning/race/joint_plan.h"
#include "partitioner/planning/sources/source.h"

namespace sluice {

// Replaces the bytes that the search counted, which are those that the layers declare, by those
// that a run allocates: these are a little more (alignment, messages ahead of their use, the
// packing of buffers). A plan that does not fit after all is made again for less memory; the lower
// bound of the first one, made with more memory than there is, still holds. Adds what audits take
// (AddAudits). Requires that sluice runs what `source` is of. Once joint.stop_completing says so,
// the best plan so far stays with the bytes that the search counted, and is not `completed`; with
// audits that is DeadlineExceeded. FailedPrecondition when nothing of the setting fits: the plan is
// then the one that needs least memory.
absl::Status FitRun(const PlanQuestion& question, const PlanSource& source,
                    const JointRequest& joint, JointPlan* best);

// Where the search found nothing (`why`): the plan of all settings whose run needs least memory, if
// that fits. The search may have ended with its budget, or have found only plans whose runs need
// more than their layers declare, and more than there is. The bound of such a plan is true whatever
// plans take of memory. Else FailedPrecondition says how much a run would need, or DeadlineExceeded
// where that nothing fits is not proved; `why` is returned where it tells of something else than
// memory, or the time is over.
absl::StatusOr<JointPlan> FitLeanest(const PlanQuestion& question, const PlanSource& source,
                                     const JointRequest& joint, const absl::Status& why);

// A FailedPrecondition for memory, with HeadAdvice; any other error as it is.
absl::Status WithHeadAdvice(const PlanSource& source, const JointRequest& joint,
                            const absl::Status& why);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_ANSWER_FIT_H_
