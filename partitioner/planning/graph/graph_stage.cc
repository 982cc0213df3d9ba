#include "partitioner/planning/graph/graph_stage.h"

#include <algorithm>
#include <cmath>

namespace sluice {

int64_t WholeBytes(double bytes) {
  constexpr double kMost = 4611686018427387904.0;  // 2^62
  return std::llround(std::min(bytes, kMost));
}

PlanStage ToPlanStage(const GraphStage& stage, int rank) {
  PlanStage planned;
  planned.layers = stage.nodes;
  planned.rank = rank;
  planned.replicas = stage.replicas;
  planned.in_flight = stage.in_flight;
  planned.cost.forward = stage.forward_seconds;
  planned.cost.input_grad = stage.backward_seconds / 2;
  planned.cost.weight_grad = planned.cost.input_grad;
  planned.cost.parameter_bytes = WholeBytes(stage.parameter_bytes);
  planned.cost.activation_bytes = WholeBytes(stage.activation_bytes);
  planned.cost.output_bytes = WholeBytes(stage.send_bytes);
  return planned;
}

std::vector<int64_t> PeakBytesByRank(const std::vector<GraphStage>& stages) {
  std::vector<int64_t> bytes;
  for (const GraphStage& stage : stages) {
    bytes.insert(bytes.end(), static_cast<size_t>(stage.replicas), WholeBytes(stage.peak_bytes()));
  }
  return bytes;
}

}  // namespace sluice
