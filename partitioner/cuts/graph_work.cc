#include "partitioner/cuts/graph_work.h"

#include <cmath>
#include <cstdint>

namespace sluice {
namespace {

constexpr double kPico = 1e-12;

int64_t Picoseconds(double seconds) { return std::llround(seconds / kPico); }

}  // namespace

double WholePicoseconds(double seconds) {
  return static_cast<double>(Picoseconds(seconds)) * kPico;
}

GraphWork::GraphWork(const ProfileGraph& of, const Downsets& downsets) : graph(of), sets(downsets) {
  for (int set = 0; set < sets.size(); ++set) {
    int64_t there = 0, back = 0;
    for (const int node : sets.NodesBetween(0, set)) {
      there += Picoseconds(graph.nodes[node].forward_seconds);
      back += Picoseconds(graph.nodes[node].backward_seconds);
    }
    forward.push_back(static_cast<double>(there) * kPico);
    backward.push_back(static_cast<double>(back) * kPico);
  }
}

GraphStage GraphWork::StageBetween(int from, int to) const {
  GraphStage stage;
  stage.nodes = sets.NodesBetween(from, to);
  stage.forward_seconds = forward[to] - forward[from];
  stage.backward_seconds = backward[to] - backward[from];
  stage.parameter_bytes = sets.parameter_bytes(to) - sets.parameter_bytes(from);
  stage.activation_bytes = sets.activation_bytes(to) - sets.activation_bytes(from);
  stage.send_bytes = sets.cut_bytes(to);
  return stage;
}

void GraphWork::AddStage(int from, int to, StepCosts* costs) const {
  const double both = backward[to] - backward[from];
  costs->forward.push_back(forward[to] - forward[from]);
  costs->backward.push_back(both);
  costs->input_grad.push_back(both / 2);
  costs->weight_grad.push_back(both / 2);
}

}  // namespace sluice
