#ifndef SLUICE_PARTITIONER_CUTS_GRAPH_STAGE_H_
#define SLUICE_PARTITIONER_CUTS_GRAPH_STAGE_H_

#include <vector>

namespace sluice {

// Nodes of a graph that run on the same devices, with what they cost.
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

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_CUTS_GRAPH_STAGE_H_
