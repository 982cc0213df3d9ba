#ifndef SLUICE_TESTS_PARTITIONER_RANDOM_GRAPH_H_
#define SLUICE_TESTS_PARTITIONER_RANDOM_GRAPH_H_

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "models/spec/profile_graph.h"
#include "partitioner/machines.h"

namespace sluice {

// Whole milliseconds and megabytes: often equal, sometimes 0.
inline ProfileGraph RandomGraph(std::mt19937_64& random, int nodes, bool chain) {
  const auto below = [&](int limit) { return static_cast<int>(random() % limit); };
  ProfileGraph graph;
  const int density = 1 + below(3);
  for (int i = 0; i < nodes; ++i) {
    ProfileNode node;
    node.id = "node" + std::to_string(i);
    node.forward_seconds = below(10) * 1e-3;
    node.backward_seconds = below(10) * 1e-3;
    node.activation_bytes = below(21) * 1e6;
    node.parameter_bytes = below(6) * 1e6;
    for (int from = 0; from < i; ++from) {
      const bool edge = chain ? from + 1 == i : below(6) < density;
      if (edge) node.sources.push_back(from);
    }
    for (const int from : node.sources) graph.nodes[from].users.push_back(i);
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

// Devices that are all alike; infinite memory: no limit.
inline Machines MachinesOf(const Link& link, double memory) {
  Machines machines;
  machines.link = link;
  if (std::isfinite(memory)) machines.memory_limit = static_cast<int64_t>(memory);
  return machines;
}

}  // namespace sluice

#endif  // SLUICE_TESTS_PARTITIONER_RANDOM_GRAPH_H_
