#include "partitioner/bounds/graph_chains.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPico = 1e-12;

int64_t Picoseconds(double seconds) { return std::llround(seconds / kPico); }

}  // namespace

GraphWork::GraphWork(const ProfileGraph& graph, const Downsets& downsets) : sets(downsets) {
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

double GraphStepProblem::SendSeconds(int stage, int set) const {
  const Placement& placement = timetable->placement;
  if (stage + 1 >= stages() || placement.rank(stage) == placement.rank(stage + 1)) return 0;
  return link.latency + work->sets.cut_bytes(set) / link.bandwidth;
}

StepCosts GraphStepProblem::Costs(const GraphCuts& cuts) const {
  StepCosts costs;
  for (int stage = 0; stage < stages(); ++stage) {
    work->AddStage(cuts[stage], cuts[stage + 1], &costs);
    costs.tail.push_back(0);
    if (stage + 1 < stages()) costs.send.push_back(SendSeconds(stage, cuts[stage + 1]));
  }
  return costs;
}

double GraphStepProblem::RankBytes(int rank, const GraphCuts& cuts) const {
  const std::vector<int>& held = in_flight->stages(rank);
  const Downsets& sets = work->sets;
  double state = 0, most = 0;
  std::vector<double> activations;
  for (const int stage : held) {
    if (stage + 1 >= static_cast<int>(cuts.size())) break;
    const int from = cuts[stage], to = cuts[stage + 1];
    state += 4 * (sets.parameter_bytes(to) - sets.parameter_bytes(from));
    activations.push_back(sets.activation_bytes(to) - sets.activation_bytes(from));
  }
  for (const InFlight::Moment& moment : in_flight->moments(rank)) {
    double bytes = 0;
    for (size_t chunk = 0; chunk < activations.size(); ++chunk) {
      bytes += (moment.activations[chunk] + moment.weight_grads[chunk]) * activations[chunk];
    }
    most = std::max(most, bytes);
  }
  return state + most;
}

double GraphStepProblem::StageBytes(int stage, int from, int to) const {
  const int rank = timetable->placement.rank(stage);
  const std::vector<int>& held = in_flight->stages(rank);
  const auto chunk = static_cast<size_t>(std::find(held.begin(), held.end(), stage) - held.begin());
  int most = 0;
  for (const InFlight::Moment& moment : in_flight->moments(rank)) {
    most = std::max(most, moment.activations[chunk] + moment.weight_grads[chunk]);
  }
  const Downsets& sets = work->sets;
  return 4 * (sets.parameter_bytes(to) - sets.parameter_bytes(from)) +
         most * (sets.activation_bytes(to) - sets.activation_bytes(from));
}

bool GraphStepProblem::Fits(const GraphCuts& cuts) const {
  if (std::isinf(memory)) return true;
  for (int rank = 0; rank < in_flight->ranks(); ++rank) {
    if (RankBytes(rank, cuts) > memory) return false;
  }
  return true;
}

ChainMean::ChainMean(const ChainCounts& chain) {
  for (const ChainCounts::Stage& stage : chain.stages) {
    stages.push_back({static_cast<double>(stage.forward),
                      (stage.input_grad + stage.weight_grad) / 2.0,
                      static_cast<double>(stage.send)});
  }
}

void ChainMean::Add(const ChainMean& chain, double weight) {
  stages.resize(chain.stages.size());
  for (size_t s = 0; s < stages.size(); ++s) {
    stages[s].forward += weight * chain.stages[s].forward;
    stages[s].backward += weight * chain.stages[s].backward;
    stages[s].send += weight * chain.stages[s].send;
  }
}

double ChainMean::Seconds(const StepCosts& costs) const {
  double seconds = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    seconds += stages[s].forward * costs.forward[s] + stages[s].backward * costs.backward[s];
    if (s + 1 < stages.size()) seconds += stages[s].send * costs.send[s];
  }
  return seconds;
}

GraphLengths::GraphLengths(const GraphStepProblem& problem)
    : problem_(problem), sets_(problem.work->sets) {
  const auto count = static_cast<size_t>(sets_.size());
  const size_t cells = Index(problem.stages() + 1, 0);
  alive_.assign(cells, 1);
  from_.resize(cells);
  to_.resize(cells);
  before_.resize(cells);
  least_.resize(count);
  which_.resize(count);
  int64_t edges = 0;
  for (int set = 0; set < sets_.size(); ++set) {
    edges += static_cast<int64_t>(sets_.Smaller(set).size());
  }
  pass_steps_ = problem.stages() * (edges + sets_.size());
}

double GraphLengths::Send(const ChainMean& chain, int stage, int set) const {
  return chain.stages[stage].send * problem_.SendSeconds(stage, set);
}

void GraphLengths::ExtendForward(const ChainMean& chain, int stage) {
  const ChainMean::Stage& counts = chain.stages[stage];
  for (int set = 0; set < sets_.size(); ++set) {
    double least = kInfinity;
    int which = -1;
    for (const int smaller : sets_.Smaller(set)) {
      if (least_[smaller] >= least) continue;
      least = least_[smaller];
      which = which_[smaller];
    }
    const double weight = Weight(counts, set);
    const size_t to = Index(stage + 1, set);
    const bool reached = alive_[to] != 0 && which >= 0;
    from_[to] = reached ? least + weight + Send(chain, stage, set) : kInfinity;
    before_[to] = which;
    const double here = from_[Index(stage, set)] - weight;
    if (here < least) {
      least = here;
      which = set;
    }
    least_[set] = least;
    which_[set] = which;
  }
}

void GraphLengths::PassForward(const ChainMean& chain) {
  std::fill(from_.begin(), from_.begin() + sets_.size(), kInfinity);
  from_[0] = 0;
  for (int stage = 0; stage < problem_.stages(); ++stage) ExtendForward(chain, stage);
}

void GraphLengths::ExtendBackward(const ChainMean& chain, int stage) {
  const ChainMean::Stage& counts = chain.stages[stage];
  std::fill(least_.begin(), least_.end(), kInfinity);
  for (int set = problem_.work->whole(); set >= 0; --set) {
    const double around = least_[set];  // of the sets that hold this one and more
    const double weight = Weight(counts, set);
    const size_t at = Index(stage, set);
    to_[at] = alive_[at] != 0 ? around - weight : kInfinity;
    const double here = to_[Index(stage + 1, set)] + weight + Send(chain, stage, set);
    const double least = std::min(around, here);
    for (const int smaller : sets_.Smaller(set)) least_[smaller] = std::min(least_[smaller], least);
  }
}

void GraphLengths::PassBackward(const ChainMean& chain) {
  const int stages = problem_.stages();
  std::fill(to_.end() - sets_.size(), to_.end(), kInfinity);
  to_.back() = 0;
  for (int stage = stages - 1; stage >= 0; --stage) ExtendBackward(chain, stage);
}

double GraphLengths::Shortest(const ChainMean& chain, GraphCuts* cuts) {
  PassForward(chain);
  const int stages = problem_.stages();
  const double seconds = from_[Index(stages, problem_.work->whole())];
  if (seconds == kInfinity) return seconds;
  cuts->assign(static_cast<size_t>(stages) + 1, problem_.work->whole());
  for (int stage = stages - 1; stage >= 0; --stage) {
    (*cuts)[stage] = before_[Index(stage + 1, (*cuts)[stage + 1])];
  }
  return seconds;
}

void GraphLengths::Drop(const ChainMean& chain, double seconds) {
  PassForward(chain);
  PassBackward(chain);
  for (size_t cell = 0; cell < alive_.size(); ++cell) {
    if (!(from_[cell] + to_[cell] < seconds)) alive_[cell] = 0;
  }
}

std::vector<int> GraphLengths::AliveAt(int stage) const {
  std::vector<int> sets;
  for (int set = 0; set < sets_.size(); ++set) {
    if (Alive(stage, set)) sets.push_back(set);
  }
  return sets;
}

}  // namespace sluice
