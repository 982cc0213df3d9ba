#ifndef SLUICE_PARTITIONER_PLANNING_RACE_GRAPH_STEP_H_
#define SLUICE_PARTITIONER_PLANNING_RACE_GRAPH_STEP_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "models/spec/profile_graph.h"
#include "partitioner/costs/link.h"
#include "partitioner/planning/plan.h"

namespace sluice {

struct GraphStepRequest {
  const ProfileGraph* graph = nullptr;
  int devices = 1;
  int micro_batches = 1;
  std::string schedule = "auto";  // or a name of the catalogue
  int chunks = 0;                 // stages a device; 0: what suits the schedule
  Link link;
  double memory = std::numeric_limits<double>::infinity();  // bytes of each device
  // A stage may have several devices, which share out its micro-batches in turn.
  bool replicate = false;
  double gap = 0;  // good enough: proved to take at most this much longer, relatively
  // Elementary steps that the searches share, as SearchOptions counts them.
  int64_t budget = 800'000'000;
  std::function<bool()> stop;  // asked now and then; true ends the search with what it has
};

// The stages of a graph, and the timetable that runs them, with the shortest step: over all cuts
// that send nothing backwards, and over the schedules asked for ("auto": all synchronous ones of
// the catalogue, with as many chunks as suit them). A stage takes the sum of its nodes' seconds;
// half of a backward is I and half W, for schedules that split it. A message between stages on two
// ranks takes latency + bytes / bandwidth either way, the bytes being all that crosses the cut (a
// tensor once; one that skips a stage is forwarded). Each device holds four copies of its
// parameters (GraphStage::state_bytes) and the activations of what the timetable keeps in flight,
// from F to the end of B, or of W where that is apart.
//   With `replicate` also stages of several devices each, by the schedules with one stage a device
// (ReplicaSearch): all devices are used, and the replicas of each stage divide the micro-batches.
// Proved optimal unless the budget ends first: then with a lower bound, still over all cuts.
// InvalidArgument when the request makes no sense, or there are fewer nodes than stages;
// ResourceExhausted when the graph has too many cuts to list; FailedPrecondition when nothing fits
// in memory, DeadlineExceeded when the budget ended before anything did.
absl::StatusOr<Plan> FindGraphStepPlan(const GraphStepRequest& request);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_RACE_GRAPH_STEP_H_
