#ifndef SLUICE_TESTS_PARTITIONER_GRAPH_ASSIGNMENTS_H_
#define SLUICE_TESTS_PARTITIONER_GRAPH_ASSIGNMENTS_H_

#include <algorithm>
#include <vector>

#include "models/spec/profile_graph.h"

// Enumerates the assignments that naive twins of the graph searches try.
namespace sluice {

template <typename Visit>
void ForEachAssignment(const ProfileGraph& graph, int stages, std::vector<int>* stage_of,
                       size_t node, const Visit& visit) {
  if (node == graph.nodes.size()) {
    for (int s = 0; s < stages; ++s) {
      if (std::count(stage_of->begin(), stage_of->end(), s) == 0) return;
    }
    return visit(*stage_of);
  }
  int first = 0;
  for (const int source : graph.nodes[node].sources) first = std::max(first, (*stage_of)[source]);
  for (int stage = first; stage < stages; ++stage) {
    (*stage_of)[node] = stage;
    ForEachAssignment(graph, stages, stage_of, node + 1, visit);
  }
}

// Calls visit(stage of each node) for every assignment of nodes to stages that sends nothing
// backwards and leaves no stage empty.
template <typename Visit>
void ForEachAssignment(const ProfileGraph& graph, int stages, const Visit& visit) {
  std::vector<int> stage_of(graph.nodes.size());
  ForEachAssignment(graph, stages, &stage_of, 0, visit);
}

// The nodes of stages up to `cut` that a later stage uses, each once.
inline double CrossingBytes(const ProfileGraph& graph, const std::vector<int>& stage_of, int cut) {
  double bytes = 0;
  for (size_t i = 0; i < stage_of.size(); ++i) {
    const std::vector<int>& users = graph.nodes[i].users;
    const bool crosses = stage_of[i] <= cut && std::any_of(users.begin(), users.end(), [&](int u) {
                           return stage_of[u] > cut;
                         });
    if (crosses) bytes += graph.nodes[i].activation_bytes;
  }
  return bytes;
}

}  // namespace sluice

#endif  // SLUICE_TESTS_PARTITIONER_GRAPH_ASSIGNMENTS_H_
