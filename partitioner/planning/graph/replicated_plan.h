#ifndef SLUICE_PARTITIONER_PLANNING_GRAPH_REPLICATED_PLAN_H_
#define SLUICE_PARTITIONER_PLANNING_GRAPH_REPLICATED_PLAN_H_

#include "absl/status/statusor.h"
#include "partitioner/cuts/graph_work.h"
#include "partitioner/planning/graph/graph_step_request.h"
#include "partitioner/planning/plan/plan.h"

namespace sluice {

// The best plan of a graph with one or several devices per stage (ReplicaSearch), by those
// schedules asked for that have one stage per device: InvalidArgument where there is none.
// FailedPrecondition when nothing fits, DeadlineExceeded when the search ended before it found
// anything that does: `lower_bound`, which no such plan is below, is set then as well.
absl::StatusOr<Plan> FindReplicatedPlan(const GraphStepRequest& request, const GraphWork& work,
                                        double* lower_bound);

// Why there is no such plan at all, where that is proved: FailedPrecondition with the least memory
// that works, and the stage that needs it, or InvalidArgument where no replicas that divide the
// micro-batches add up to the devices. DeadlineExceeded as above.
absl::Status WhyNoReplicatedPlan(const GraphStepRequest& request, const GraphWork& work);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_GRAPH_REPLICATED_PLAN_H_
