#include "partitioner/bounds/graph_arcs.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What a step takes at least because of one stage: it works on every micro-batch, the first of
// which comes through all before it, and the gradient of the last goes back through that. Only W,
// where it is an action of its own, may run meanwhile.
class StageFloor {
 public:
  explicit StageFloor(const GraphStepProblem& problem)
      : work_(*problem.work),
        micro_batches_(problem.timetable->micro_batches),
        input_grad_(problem.timetable->splits_backward() ? 0.5 : 1) {}

  double Seconds(int from, const GraphArc& arc) const {
    const double chained = micro_batches_ * (arc.forward + input_grad_ * arc.backward);
    const double weights = micro_batches_ * (1 - input_grad_) * arc.backward;
    return work_.forward[from] + chained + std::max(weights, input_grad_ * work_.backward[from]);
  }

 private:
  const GraphWork& work_;
  int micro_batches_;
  double input_grad_;  // the share of the backward that is I, or of a B that is whole all of it
};

}  // namespace

bool GraphArcs::Build(const GraphStepProblem& problem, const GraphLengths& lengths,
                      const ChainMean& chain, double cutoff, int64_t most) {
  const int stages = problem.stages();
  sets_.clear();
  for (int cut = 0; cut <= stages; ++cut) sets_.push_back(lengths.AliveAt(cut));
  arcs_.assign(stages, {});
  int64_t pairs = 0;
  for (int stage = 0; stage < stages; ++stage) {
    pairs += static_cast<int64_t>(sets_[stage].size() * sets_[stage + 1].size());
  }
  constexpr int64_t kLooks = 20;  // quicker than keeping one
  if (pairs > kLooks * most) return false;
  for (int stage = 0; stage < stages; ++stage) {
    if (!AddStage(problem, lengths, chain, stage, cutoff, most)) return false;
  }
  Index();
  DropDeadEnds();
  return true;
}

bool GraphArcs::AddStage(const GraphStepProblem& problem, const GraphLengths& lengths,
                         const ChainMean& chain, int stage, double cutoff, int64_t most) {
  const GraphWork& work = *problem.work;
  const StageFloor floor(problem);
  const std::vector<int>& ends = sets_[stage + 1];
  for (size_t i = 0; i < sets_[stage].size(); ++i) {
    const int from = sets_[stage][i];
    const auto first = std::upper_bound(ends.begin(), ends.end(), from);
    for (auto end = first; end != ends.end(); ++end) {
      const int to = *end;
      GraphArc arc;
      arc.from = static_cast<int32_t>(i);
      arc.to = static_cast<int32_t>(end - ends.begin());
      arc.forward = work.forward[to] - work.forward[from];
      arc.backward = work.backward[to] - work.backward[from];
      arc.send = problem.SendSeconds(stage, to);
      arc.bound = std::max(
          floor.Seconds(from, arc),
          lengths.from(stage, from) + arc.Seconds(chain.stages[stage]) + lengths.to(stage + 1, to));
      if (!(arc.bound < cutoff) || !work.sets.Inside(from, to)) continue;
      if (problem.StageBytes(stage, from, to) > problem.memory) continue;
      arcs_[stage].push_back(arc);
    }
    if (count() > most) return false;
  }
  return true;
}

void GraphArcs::Index() {
  offsets_.clear();
  for (int stage = 0; stage < stages(); ++stage) {
    std::vector<int64_t>& offsets = offsets_.emplace_back(sets_[stage].size() + 1, 0);
    for (const GraphArc& arc : arcs_[stage]) ++offsets[static_cast<size_t>(arc.from) + 1];
    for (size_t cut = 1; cut < offsets.size(); ++cut) offsets[cut] += offsets[cut - 1];
  }
}

int64_t GraphArcs::count() const {
  int64_t count = 0;
  for (const std::vector<GraphArc>& arcs : arcs_) count += static_cast<int64_t>(arcs.size());
  return count;
}

absl::Span<const GraphArc> GraphArcs::From(int stage, int cut) const {
  const std::vector<int64_t>& offsets = offsets_[stage];
  return absl::MakeConstSpan(arcs_[stage].data() + offsets[cut],
                             arcs_[stage].data() + offsets[static_cast<size_t>(cut) + 1]);
}

std::vector<std::vector<double>> GraphArcs::Filled(double value) const {
  std::vector<std::vector<double>> filled;
  for (const std::vector<int>& sets : sets_) filled.emplace_back(sets.size(), value);
  return filled;
}

std::vector<std::vector<double>> GraphArcs::Measure(const ChainMean& chain) {
  std::vector<std::vector<double>> to = Filled(kInfinity), from = to;
  std::fill(to.back().begin(), to.back().end(), 0);
  std::fill(from.front().begin(), from.front().end(), 0);
  for (int stage = stages() - 1; stage >= 0; --stage) {
    for (const GraphArc& arc : arcs_[stage]) {
      double& least = to[stage][arc.from];
      least = std::min(least, arc.Seconds(chain.stages[stage]) + to[stage + 1][arc.to]);
    }
  }
  for (int stage = 0; stage < stages(); ++stage) {
    for (GraphArc& arc : arcs_[stage]) {
      const double here = from[stage][arc.from] + arc.Seconds(chain.stages[stage]);
      double& least = from[stage + 1][arc.to];
      least = std::min(least, here);
      arc.bound = std::max(arc.bound, here + to[stage + 1][arc.to]);
    }
  }
  return to;
}

double GraphArcs::Shortest(const ChainMean& chain, GraphCuts* cuts) {
  const std::vector<std::vector<double>> to = Measure(chain);
  if (to[0].empty() || to[0][0] == kInfinity) return kInfinity;
  cuts->assign(1, sets_[0][0]);
  for (int stage = 0, cut = 0; stage < stages(); ++stage) {
    const absl::Span<const GraphArc> arcs = From(stage, cut);
    const auto length = [&](const GraphArc& arc) {
      return arc.Seconds(chain.stages[stage]) + to[stage + 1][arc.to];
    };
    const auto* best = std::min_element(
        arcs.begin(), arcs.end(),
        [&](const GraphArc& a, const GraphArc& b) { return length(a) < length(b); });
    cut = best->to;
    cuts->push_back(sets_[stage + 1][cut]);
  }
  return to[0][0];
}

void GraphArcs::Cut(double cutoff) {
  for (std::vector<GraphArc>& arcs : arcs_) {
    std::erase_if(arcs, [cutoff](const GraphArc& arc) { return !(arc.bound < cutoff); });
  }
  DropDeadEnds();
}

void GraphArcs::DropDeadEnds() {
  std::vector<std::vector<double>> from = Filled(0), to = from;
  std::fill(from.front().begin(), from.front().end(), 1);
  std::fill(to.back().begin(), to.back().end(), 1);
  for (int stage = 0; stage < stages(); ++stage) {
    for (const GraphArc& arc : arcs_[stage]) {
      if (from[stage][arc.from] > 0) from[stage + 1][arc.to] = 1;
    }
  }
  for (int stage = stages() - 1; stage >= 0; --stage) {
    std::erase_if(arcs_[stage], [&](const GraphArc& arc) {
      const bool dead = from[stage][arc.from] == 0 || to[stage + 1][arc.to] == 0;
      if (!dead) to[stage][arc.from] = 1;
      return dead;
    });
  }
  Index();
}

std::vector<std::vector<double>> GraphArcs::BoundsToEnd() const {
  std::vector<std::vector<double>> bounds = Filled(kInfinity);
  std::fill(bounds.back().begin(), bounds.back().end(), 0);
  for (int stage = stages() - 1; stage >= 0; --stage) {
    for (const GraphArc& arc : arcs_[stage]) {
      double& bound = bounds[stage][arc.from];
      bound = std::min(bound, std::max(arc.bound, bounds[stage + 1][arc.to]));
    }
  }
  return bounds;
}

}  // namespace sluice
