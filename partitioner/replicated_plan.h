#ifndef SLUICE_PARTITIONER_REPLICATED_PLAN_H_
#define SLUICE_PARTITIONER_REPLICATED_PLAN_H_

#include "absl/status/statusor.h"
#include "partitioner/downsets.h"
#include "partitioner/graph_step.h"

namespace sluice {

// The best plan of a graph with one or several devices a stage (ReplicaSearch), by those schedules
// of request.schedule that have one stage a device: InvalidArgument where there is none.
// FailedPrecondition when nothing fits, or nothing that does was found: `lower_bound`, which no
// such plan is below, is set then as well.
absl::StatusOr<GraphStepPlan> FindReplicatedPlan(const GraphStepRequest& request,
                                                 const Downsets& sets, double* lower_bound);

// Why there is no such plan at all, where that is proved: FailedPrecondition with the least memory
// that works, and the stage that needs it, or InvalidArgument where no replicas that divide the
// micro-batches add up to the devices.
absl::Status WhyNoReplicatedPlan(const GraphStepRequest& request, const Downsets& sets);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_REPLICATED_PLAN_H_
