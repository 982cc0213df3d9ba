#ifndef SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_STEP_H_
#define SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_STEP_H_

#include "absl/status/statusor.h"
#include "partitioner/planning/graph/graph_step_request.h"
#include "partitioner/planning/plan/plan.h"

namespace sluice {

// The stages of a graph, and the timetable that runs them, with the shortest step: over all cuts
// that send nothing backwards, and over the schedules asked for (any: all synchronous ones of the
// catalogue, with as many chunks as suit them). A stage takes the sum of its nodes' seconds;
// half of a backward is I and half W, for schedules that split it. A message between stages on two
// ranks takes latency + bytes / bandwidth either way, the bytes being all that crosses the cut (a
// tensor once; one that skips a stage is forwarded). Each device holds four copies of its
// parameters (GraphStage::state_bytes) and the activations of what the timetable keeps in flight,
// from F to the end of B, or of W where that is apart.
//   With `replicate` also stages of several devices each, by the schedules with one stage per
// device (ReplicaSearch): all devices are used, and the replicas of each stage divide the
// micro-batches.
// Proved optimal unless the budget ends first: then with a lower bound, still over all cuts.
//   A graph with more cuts than `request.cut_limits` allows is cut along some of them
// (ListSomeCuts): around the best plan along an order of its nodes, then around the best one found,
// as long as that helps. The lower bound is over all cuts all the same (AnyCuts).
// InvalidArgument when the request makes no sense, or there are fewer nodes than stages;
// FailedPrecondition when nothing fits in memory; DeadlineExceeded when the budget ended before
// anything did, or nothing was found that fits and other cuts of the graph may.
absl::StatusOr<Plan> FindGraphStepPlan(const GraphStepRequest& request);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_STEP_H_
