#ifndef SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_STEP_REQUEST_H_
#define SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_STEP_REQUEST_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "models/spec/profile_graph.h"
#include "partitioner/cuts/cut_limits.h"
#include "partitioner/machines.h"

namespace sluice {

// What is asked of the stages of a graph, for the objective step.
struct GraphStepRequest {
  const ProfileGraph* graph = nullptr;
  int devices = 1;
  int micro_batches = 1;
  std::optional<std::string> schedule;  // a name of the catalogue; nullopt: any
  int chunks = 0;                       // stages per device; 0: what suits the schedule
  Machines machines;                    // all alike, without costs
  // A stage may have several devices, which share out its micro-batches in turn.
  bool replicate = false;
  CutLimits cut_limits;
  double gap = 0;  // good enough: proved to take at most this much longer, relatively
  // Elementary steps that the searches share, as SearchOptions counts them.
  int64_t budget = 800'000'000;
  std::function<bool()> stop;  // asked now and then; true ends the search with what it has
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_STEP_REQUEST_H_
