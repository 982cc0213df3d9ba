#include "partitioner/bounds/graph_lengths.h"

#include <algorithm>
#include <limits>

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

GraphLengths::GraphLengths(const GraphStepProblem& problem)
    : problem_(problem), sets_(problem.work->sets) {
  const auto count = static_cast<size_t>(sets_.size());
  const size_t cells = Index(problem.stages() + 1, 0);
  alive_.assign(cells, 1);
  from_.resize(cells);
  before_.resize(cells);
  least_.resize(count);
  which_.resize(count);
  int64_t edges = 0;
  for (int set = 0; set < sets_.size(); ++set) {
    edges += static_cast<int64_t>(sets_.Smaller(set).size());
  }
  pass_steps_ = problem.stages() * (edges + sets_.size());
}

void GraphLengths::ExtendForward(const ChainMean& chain, int stage) {
  const ChainMean::Stage& counts = chain.stages[stage];
  const Link link = problem_.LinkAfter(stage);
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
    from_[to] = reached ? least + weight + Send(counts, link, set) : kInfinity;
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
  const Link link = problem_.LinkAfter(stage);
  std::fill(least_.begin(), least_.end(), kInfinity);
  for (int set = problem_.work->whole(); set >= 0; --set) {
    const double around = least_[set];  // of the sets that hold this one and more
    const double weight = Weight(counts, set);
    const size_t at = Index(stage, set);
    to_[at] = alive_[at] != 0 ? around - weight : kInfinity;
    const double here = to_[Index(stage + 1, set)] + weight + Send(counts, link, set);
    const double least = std::min(around, here);
    for (const int smaller : sets_.Smaller(set)) least_[smaller] = std::min(least_[smaller], least);
  }
}

void GraphLengths::PassBackward(const ChainMean& chain) {
  const int stages = problem_.stages();
  to_.resize(from_.size());
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
