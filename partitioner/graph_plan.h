#ifndef SLUICE_PARTITIONER_GRAPH_PLAN_H_
#define SLUICE_PARTITIONER_GRAPH_PLAN_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "models/spec/profile_graph.h"
#include "partitioner/cuts/graph_stage.h"

namespace sluice {

// A graph that is to be cut for the least bottleneck. `graph` stays the caller's.
struct GraphRequest {
  const ProfileGraph* graph = nullptr;
  int devices = 1;
  double bandwidth = std::numeric_limits<double>::infinity();  // bytes/s
  bool replicate = false;  // a stage may run on several devices, each with its own micro-batches
  double memory = std::numeric_limits<double>::infinity();  // bytes of each device
};

// Its stages.
struct GraphPlan {
  std::vector<GraphStage> stages;
  double bottleneck_seconds = 0;  // proved: no other partition has less
  int64_t cuts = 0;               // ways to cut the graph in two, all of them considered
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_GRAPH_PLAN_H_
