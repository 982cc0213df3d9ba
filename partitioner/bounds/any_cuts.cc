#include "partitioner/bounds/any_cuts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "partitioner/bounds/stage_bound.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kBits = 64;
// Of nodes whose ancestors are counted: a bit for each pair.
constexpr size_t kMostNodes = 1 << 14;

// Whether every node is connected with every other, along or against edges: then at least one
// tensor crosses any cut with nodes on both sides.
bool IsConnected(const ProfileGraph& graph) {
  std::vector<char> seen(graph.nodes.size());
  std::vector<int> open = {0};
  seen[0] = 1;
  size_t count = 1;
  while (!open.empty()) {
    const ProfileNode& node = graph.nodes[open.back()];
    open.pop_back();
    for (const std::vector<int>* others : {&node.sources, &node.users}) {
      for (const int other : *others) {
        if (seen[other] != 0) continue;
        seen[other] = 1;
        ++count;
        open.push_back(other);
      }
    }
  }
  return count == graph.nodes.size();
}

// Of any cut with nodes on both sides.
double LeastCutBytes(const ProfileGraph& graph) {
  if (graph.nodes.size() < 2 || !IsConnected(graph)) return 0;
  double least = kInfinity;
  for (const ProfileNode& node : graph.nodes) {
    if (!node.users.empty()) least = std::min(least, node.activation_bytes);
  }
  return least;
}

}  // namespace

AnyCuts::AnyCuts(const GraphStepProblem& problem) : problem_(problem) {
  const ProfileGraph& graph = problem.work->graph;
  double total = 0;
  for (const ProfileNode& node : graph.nodes) {
    nodes_.push_back(
        {WholePicoseconds(node.forward_seconds), WholePicoseconds(node.backward_seconds)});
    total += nodes_.back().forward + nodes_.back().backward;
  }
  const double bytes = LeastCutBytes(graph);
  for (int stage = 0; stage + 1 < problem.stages(); ++stage) {
    least_send_.push_back(problem.LinkAfter(stage).Seconds(bytes));
  }
  const Timetable& table = *problem.timetable;
  seconds_ = std::max(table.micro_batches * total / table.placement.ranks(), NodeSeconds());
}

double AnyCuts::NodeSeconds() const {
  const ProfileGraph& graph = problem_.work->graph;
  const bool count_ancestors = graph.nodes.size() <= kMostNodes;
  const size_t words = count_ancestors ? (graph.nodes.size() + kBits - 1) / kBits : 0;
  std::vector<uint64_t> ancestors(graph.nodes.size() * words);  // [node][word]
  const bool splits = problem_.timetable->splits_backward();
  const double input_grad = splits ? 0.5 : 1;
  const double micro_batches = problem_.timetable->micro_batches;
  double most = 0;
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    uint64_t* own = ancestors.data() + node * words;
    double there = 0, back = 0;  // through what it needs
    for (const int source : graph.nodes[node].sources) {
      if (!count_ancestors) break;
      const auto at = static_cast<size_t>(source);
      const uint64_t* of_source = ancestors.data() + at * words;
      for (size_t word = 0; word < words; ++word) own[word] |= of_source[word];
      own[at / kBits] |= uint64_t{1} << (at % kBits);
    }
    for (size_t other = 0; other < node && count_ancestors; ++other) {
      if ((own[other / kBits] >> (other % kBits) & 1) == 0) continue;
      there += nodes_[other].forward;
      back += nodes_[other].backward;
    }
    const auto& [forward, backward] = nodes_[node];
    const StageWaits waits = {.in = there,
                              .chained = micro_batches * (forward + input_grad * backward),
                              .weights = micro_batches * (1 - input_grad) * backward,
                              .out = input_grad * back};
    most = std::max(most, StageBound(waits, splits));
  }
  return most;
}

double AnyCuts::Shortest(const ChainMean& mean, StepCosts* costs) const {
  const auto stages = mean.stages.size();
  std::vector<double> forward(stages), backward(stages);
  double seconds = 0;
  for (const Node& node : nodes_) {
    double least = kInfinity;
    size_t where = 0;
    for (size_t stage = 0; stage < stages; ++stage) {
      const ChainMean::Stage& counts = mean.stages[stage];
      const double here = counts.forward * node.forward + counts.backward * node.backward;
      if (here >= least) continue;
      least = here;
      where = stage;
    }
    seconds += least;
    forward[where] += node.forward;
    backward[where] += node.backward;
  }
  for (size_t stage = 0; stage < least_send_.size(); ++stage) {
    seconds += mean.stages[stage].send * least_send_[stage];
  }
  *costs = {};
  costs->forward = std::move(forward);
  for (const double both : backward) {
    costs->input_grad.push_back(both / 2);
    costs->weight_grad.push_back(both / 2);
    costs->tail.push_back(0);
  }
  costs->backward = std::move(backward);
  costs->send = least_send_;
  return seconds;
}

}  // namespace sluice
