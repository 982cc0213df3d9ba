#include "partitioner/cuts/graph_work.h"

#include <cmath>
#include <cstddef>
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
  const auto count = static_cast<size_t>(sets.size());
  std::vector<int64_t> there(count, 0), back(count, 0);  // [set] picoseconds
  forward.reserve(count);
  backward.reserve(count);
  for (int set = 0; set < sets.size(); ++set) {
    // All but the empty one have a smaller one, which stands before.
    const int smaller = set == 0 ? 0 : sets.Smaller(set).front();
    there[set] = there[smaller];
    back[set] = back[smaller];
    for (const int node : sets.NodesBetween(smaller, set)) {
      there[set] += Picoseconds(graph.nodes[node].forward_seconds);
      back[set] += Picoseconds(graph.nodes[node].backward_seconds);
    }
    forward.push_back(static_cast<double>(there[set]) * kPico);
    backward.push_back(static_cast<double>(back[set]) * kPico);
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
