#ifndef SLUICE_PARTITIONER_SEARCH_GRAPH_PARTITION_H_
#define SLUICE_PARTITIONER_SEARCH_GRAPH_PARTITION_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "models/spec/profile_graph.h"

namespace sluice {

struct GraphRequest {
  const ProfileGraph* graph = nullptr;
  int devices = 1;
  double bandwidth = std::numeric_limits<double>::infinity();  // bytes/s
  bool replicate = false;  // a stage may run on several devices, each with its own micro-batches
  double memory = std::numeric_limits<double>::infinity();  // bytes of each device
};

struct GraphStage {
  std::vector<int> nodes;  // ascending, which is an order with sources first
  int replicas = 1;
  double forward_seconds = 0;
  double backward_seconds = 0;
  double parameter_bytes = 0;
  double send_bytes = 0;        // across the cut after it; 0 for the last
  double activation_bytes = 0;  // outputs of its nodes, of one micro-batch
  int in_flight = 1;            // micro-batches that one replica keeps them of

  // What each of its devices holds: of parameters four copies, which are weights, their gradients
  // and Adam's two moments, all in the type of the profile (fp32).
  double state_bytes() const { return 4 * parameter_bytes; }
  double peak_bytes() const { return state_bytes() + in_flight * activation_bytes; }
};

struct GraphPlan {
  std::vector<GraphStage> stages;
  double bottleneck_seconds = 0;  // proved: no other partition has less
  int64_t cuts = 0;               // ways to cut the graph in two, all of them considered
};

// The partition of a graph into stages whose bottleneck is least, over all cuts that send nothing
// backwards. The bottleneck is the largest of, with b the bandwidth,
//   a stage on r devices        (T + 4 P (r - 1) / (r b)) / r     T seconds, P parameter bytes
//   the input of such a stage   2 A / (b r)                       A bytes that cross the cut
//   its output                  2 A / (b r)                       but not the first stage's
// (PipeDream, SOSP 2019, section 3.1, as its optimizer_graph_hierarchical.py counts it: transfers
// overlap compute; an activation goes over and its gradient comes back; replicas sum their
// gradients). A tensor crosses once if it has a user behind the cut. Replicas add up to exactly
// `devices`; without `replicate` that is as many stages, none empty.
// With `memory`, of the partitions whose stages all have peak_bytes() within it. In flight is what
// 1F1B keeps with one version of the weights: with k devices from the stage on, its own r among
// them, ceil(k / r) micro-batches a replica; without replicas the first of S stages keeps S, the
// last 1. (PipeDream's --use_memory_constraint counts one fewer, and a copy of the weights with
// each; it does not count gradients and moments.)
// InvalidArgument when there are fewer nodes than stages needed, more devices than replicas of so
// many cuts can be searched for, or a count, bandwidth or memory below what makes sense;
// ResourceExhausted when the graph has too many cuts to try them all; FailedPrecondition when
// nothing fits in `memory`, with the least memory that works and the stage that needs it.
absl::StatusOr<GraphPlan> FindGraphPartition(const GraphRequest& request);

// The bottleneck of stages however they were found, by the same count.
double GraphBottleneck(const GraphRequest& request, const std::vector<GraphStage>& stages);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_SEARCH_GRAPH_PARTITION_H_
