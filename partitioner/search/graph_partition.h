#ifndef SLUICE_PARTITIONER_SEARCH_GRAPH_PARTITION_H_
#define SLUICE_PARTITIONER_SEARCH_GRAPH_PARTITION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/cuts/graph_stage.h"
#include "partitioner/graph_plan.h"

namespace sluice {

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
// Over all cuts of the graph that is proved: the lower bound is the bottleneck, unless the search
// was stopped before. A graph with more cuts than `request.cut_limits.all` is cut along some of
// them (ListSomeCuts), first around the best partition along the order of the file, then around the
// best one found, as long as that helps; the bound is what the nodes alone prove (LeastBottleneck).
// InvalidArgument when there are fewer nodes than stages needed, more devices than replicas of so
// many cuts can be searched for, or a count, bandwidth or memory below what makes sense;
// FailedPrecondition when nothing fits in the memory, with the least memory that works and the
// stage that needs it; DeadlineExceeded when nothing was found that fits, but others of the graph's
// cuts may, or the search was stopped.
absl::StatusOr<GraphPlan> FindGraphPartition(const GraphRequest& request);

// No bottleneck of a partition of the request's graph is below, whatever its cuts: the work spread
// evenly, and a node that is not divided.
double LeastBottleneck(const GraphRequest& request);

// The bottleneck of stages however they were found, by the same count.
double GraphBottleneck(const GraphRequest& request, const std::vector<GraphStage>& stages);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_SEARCH_GRAPH_PARTITION_H_
