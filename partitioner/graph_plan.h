#ifndef SLUICE_PARTITIONER_GRAPH_PLAN_H_
#define SLUICE_PARTITIONER_GRAPH_PLAN_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "models/spec/profile_graph.h"
#include "partitioner/cuts/cut_limits.h"
#include "partitioner/cuts/graph_stage.h"
#include "partitioner/machines.h"

namespace sluice {

// A graph that is to be cut for the least bottleneck. `graph` stays the caller's.
struct GraphRequest {
  const ProfileGraph* graph = nullptr;
  int devices = 1;
  Machines machines = {};  // all alike, without costs; latencies do not count
  bool replicate = false;  // a stage may run on several devices, each with its own micro-batches
  CutLimits cut_limits = {};
  // Asked again and again; true ends the search with what it has and what it has proved. May be
  // empty.
  std::function<bool()> stop = {};

  double bandwidth() const { return machines.link.bandwidth; }  // bytes/s
  // Bytes of each device; infinite without a limit.
  double memory() const {
    return machines.limits_memory() ? static_cast<double>(machines.least_memory())
                                    : std::numeric_limits<double>::infinity();
  }
};

// Its stages.
struct GraphPlan {
  std::vector<GraphStage> stages;
  double bottleneck_seconds = 0;
  double lower_bound = 0;  // no partition that fits has a smaller bottleneck
  int64_t cuts = 0;        // ways to cut the graph in two that were considered
  bool all_cuts = true;    // there are no others
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_GRAPH_PLAN_H_
