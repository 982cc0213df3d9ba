// Branch and bound over the cuts of a graph, with bounds made of chains of actions.
//
// A step lasts as long as the longest chain of actions that wait for one another. What a chain
// takes is a sum over stages, and so is what a mean of chains takes, which is no longer than the
// longest: its shortest pipeline (GraphLengths: no pairs of cuts needed) bounds every step.
//   1. Rounds look for the mean that bounds best. Each shortest pipeline is simulated: it may be
//      the best so far, and its critical chain joins the others; chains longer there than the mean
//      gain weight (exponentiated gradient on the dual of the linear relaxation).
//   2. Cuts that the best mean proves too long are dropped. What is left of pairs becomes arcs, and
//      the rounds go on over these, which know about memory.
//   3. A depth-first search over the arcs, stage by stage, cut where any chain collected, or the
//      mean, takes too long with its exact seconds so far and its least to the end.
#include "partitioner/search/graph_step_search.h"

#include <algorithm>
#include <cmath>

#include "absl/memory/memory.h"

namespace sluice {
namespace {

constexpr double kSlowdowns[] = {4, 2, 1.1};
constexpr int64_t kMostRounds = 1000, kLeastRounds = 10;
// Rounds without progress before the stride is halved, and how often it is.
constexpr int kPatience = 12;
constexpr int kHalvings = 6;
constexpr double kProgress = 1e-5;
constexpr size_t kMostChains = 400;
constexpr size_t kMostProofs = 160;
constexpr int64_t kMostArcs = 3'000'000;
// Of the pairs of a cut and a stage: lengths are kept for each.
constexpr int64_t kMostCells = 20'000'000;
// Of the budget, for measuring chain by chain.
constexpr int64_t kShareOfMeasures = 4;

}  // namespace

absl::StatusOr<std::unique_ptr<GraphStepSearch>> GraphStepSearch::Create(
    const GraphStepProblem& problem) {
  absl::StatusOr<StepModel> model = StepModel::Compile(*problem.timetable);
  if (!model.ok()) return model.status();
  return absl::WrapUnique(new GraphStepSearch(problem, *std::move(model)));
}

GraphStepAnswer GraphStepSearch::Run(const SearchOptions& options) {
  options_ = options;
  const int64_t cells = static_cast<int64_t>(problem_.stages() + 1) * problem_.work->sets.size();
  // Every rank is as busy as the work shared evenly, at least.
  const int whole = problem_.work->whole();
  bound_ = problem_.timetable->micro_batches *
           (problem_.work->forward[whole] + problem_.work->backward[whole]) /
           problem_.timetable->placement.ranks();
  if (bound_ >= Target() || cells > kMostCells) {
    Finish(bound_);
    return answer_;
  }
  GraphLengths lengths(problem_);
  Probe();
  Rounds([&](const ChainMean& mean, GraphCuts* cuts) { return lengths.Shortest(mean, cuts); },
         lengths.pass_steps(), options_.budget / 3);
  if (best_mean_.stages.empty() || bound_ >= Target() || !DropCuts(&lengths)) {
    Finish(bound_);
    return answer_;
  }
  if (BoundArcs()) Descend();
  Finish(std::max(bound_, std::min(unsearched_, Target())));
  return answer_;
}

void GraphStepSearch::Finish(double lower_bound) {
  const double target = Target();
  const double incumbent = std::min(answer_.seconds, options_.cutoff);
  answer_.complete = lower_bound >= target;
  answer_.lower_bound =
      answer_.complete ? incumbent / (1 + options_.gap) : std::min(lower_bound, incumbent);
}

void GraphStepSearch::Probe() {
  const GraphWork& work = *problem_.work;
  const auto stages = static_cast<size_t>(problem_.stages());
  const auto share = [&](double total) {
    return std::vector<double>(stages, total / static_cast<double>(stages));
  };
  const double backward = work.backward[work.whole()];
  StepCosts even;
  even.forward = share(work.forward[work.whole()]);
  even.backward = share(backward);
  even.input_grad = share(backward / 2);
  even.weight_grad = share(backward / 2);
  even.tail = share(0);
  for (int stage = 0; stage + 1 < problem_.stages(); ++stage) {
    even.send.push_back(problem_.SendSeconds(stage, 0));
  }
  for (const double slowdown : kSlowdowns) {
    for (const ChainCounts& chain : model_.RankChains(even, slowdown)) AddChain(ChainMean(chain));
    answer_.steps += 4 * model_.action_count();
  }
}

// A new chain gets the mean weight of those before.
void GraphStepSearch::AddChain(ChainMean chain) {
  if (chains_.size() >= kMostChains) return;
  for (const ChainMean& known : chains_) {
    if (known.stages == chain.stages) return;
  }
  const double weight = 1.0 / static_cast<double>(chains_.size() + 1);
  for (double& other : weights_) other *= 1 - weight;
  weights_.push_back(weight);
  chains_.push_back(std::move(chain));
}

ChainMean GraphStepSearch::Mean() const {
  ChainMean mean;
  for (size_t i = 0; i < chains_.size(); ++i) mean.Add(chains_[i], weights_[i]);
  return mean;
}

double GraphStepSearch::Consider(const GraphCuts& cuts, const StepCosts& costs) {
  const double seconds = model_.Makespan(costs);
  answer_.steps += model_.action_count();
  if (seconds < answer_.seconds && problem_.Fits(cuts)) {
    answer_.seconds = seconds;
    answer_.cuts = cuts;
  }
  return seconds;
}

void GraphStepSearch::Rounds(const ShortestWay& shortest, int64_t pass_steps, int64_t budget) {
  double stride = 2;
  int stalled = 0;
  double shown = bound_;  // the bound when progress was last made
  GraphCuts cuts;
  const int64_t end = answer_.steps + budget;
  // Where there are few cuts, looking at all of them is quicker.
  const int64_t most = std::min(kMostRounds, kLeastRounds + pass_steps / kLeastRounds);
  for (int64_t round = 0; round < most && answer_.steps < end; ++round) {
    if (round > 0 && out_of_budget()) return;
    const ChainMean mean = Mean();
    const double least = shortest(mean, &cuts);
    answer_.steps += pass_steps;
    if (least > bound_ || best_mean_.stages.empty()) {
      bound_ = std::max(bound_, least);
      best_mean_ = mean;
    }
    if (bound_ >= Target() || least == kInfinity) return;
    const StepCosts costs = problem_.Costs(cuts);
    Consider(cuts, costs);
    if (bound_ > shown * (1 + kProgress)) {
      shown = bound_;
      stalled = 0;
    } else if (++stalled % kPatience == 0) {
      stride /= 2;
      if (stalled >= kPatience * kHalvings) return;
    }
    answer_.steps += model_.action_count();
    AddChain(ChainMean(model_.CriticalChain(costs)));
    Reweigh(costs, least, stride);
  }
}

// Towards the chains that take long where their mean takes least.
void GraphStepSearch::Reweigh(const StepCosts& costs, double least, double stride) {
  std::vector<double> excess;
  double most = 0;
  for (const ChainMean& chain : chains_) {
    excess.push_back(chain.Seconds(costs) - least);
    most = std::max(most, std::abs(excess.back()));
  }
  answer_.steps += static_cast<int64_t>(chains_.size()) * problem_.stages();
  if (most == 0) return;
  const double open = std::min(std::min(answer_.seconds, options_.cutoff) - bound_, most);
  double sum = 0;
  for (size_t i = 0; i < chains_.size(); ++i) {
    weights_[i] *= std::exp(stride * open / most * excess[i] / most);
    sum += weights_[i];
  }
  for (double& weight : weights_) weight /= sum;
}

// False when no pipeline is left, or too many to look at.
bool GraphStepSearch::DropCuts(GraphLengths* lengths) {
  const int64_t once = 2 * lengths->pass_steps();
  if (!std::isinf(Target()) &&
      once * static_cast<int64_t>(chains_.size()) < options_.budget / kShareOfMeasures) {
    for (const ChainMean& chain : chains_) lengths->Drop(chain, Target());
    answer_.steps += once * static_cast<int64_t>(chains_.size());
  }
  lengths->Drop(best_mean_, Target());
  answer_.steps += once;
  if (!lengths->Alive(0, 0)) {
    bound_ = std::max(bound_, Target());
    return false;
  }
  return arcs_.Build(problem_, *lengths, best_mean_, Target(), kMostArcs);
}

// False when the bounds alone are proof.
bool GraphStepSearch::BoundArcs() {
  const auto shortest = [&](const ChainMean& mean, GraphCuts* cuts) {
    arcs_.Cut(Target());
    return arcs_.Shortest(mean, cuts);
  };
  Rounds(shortest, 6 * arcs_.count(), options_.budget / 3);
  arcs_.Cut(Target());
  return bound_ < Target();
}

void GraphStepSearch::Descend() {
  // The mean says most; then the chains that it is made of.
  std::vector<size_t> order(chains_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return weights_[a] > weights_[b]; });
  proofs_ = {best_mean_};
  const int64_t once = 4 * arcs_.count();
  for (const size_t i : order) {
    if (proofs_.size() < kMostProofs / 2 &&
        once * static_cast<int64_t>(proofs_.size()) < options_.budget / kShareOfMeasures) {
      proofs_.push_back(chains_[i]);
    }
  }
  for (const ChainMean& proof : proofs_) to_end_.push_back(arcs_.Measure(proof));
  answer_.steps += once * static_cast<int64_t>(proofs_.size());
  bounds_to_end_ = arcs_.BoundsToEnd();
  bound_ = std::max(bound_, bounds_to_end_[0].empty() ? kInfinity : bounds_to_end_[0][0]);
  if (bound_ >= Target()) return;
  spent_.assign(static_cast<size_t>(problem_.stages()) + 1, {});
  spent_[0].assign(proofs_.size(), 0);
  path_ = {0};
  Branch(0, 0);
}

// The least seconds of a pipeline that goes on with `arc`. Fills spent_ after it.
double GraphStepSearch::BoundOf(const GraphArc& arc, int stage) {
  double bound = std::max(arc.bound, bounds_to_end_[stage + 1][arc.to]);
  std::vector<double>& spent = spent_[stage + 1];
  spent.resize(proofs_.size());
  for (size_t i = 0; i < proofs_.size(); ++i) {
    spent[i] = spent_[stage][i] + arc.Seconds(proofs_[i].stages[stage]);
    bound = std::max(bound, spent[i] + to_end_[i][stage + 1][arc.to]);
  }
  answer_.steps += static_cast<int64_t>(proofs_.size());
  return bound;
}

void GraphStepSearch::Branch(int stage, int cut) {
  if (stage == problem_.stages()) return Leaf();
  std::vector<std::pair<double, const GraphArc*>> children;
  for (const GraphArc& arc : arcs_.From(stage, cut)) {
    if (!(arc.bound < Target())) continue;
    const double bound = BoundOf(arc, stage);
    if (bound < Target()) children.emplace_back(bound, &arc);
  }
  std::stable_sort(children.begin(), children.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [bound, arc] : children) Visit(*arc, stage, bound);
}

void GraphStepSearch::Visit(const GraphArc& arc, int stage, double bound) {
  if (bound >= Target()) return;
  if (out_of_budget()) {
    unsearched_ = std::min(unsearched_, bound);
    return;
  }
  if (BoundOf(arc, stage) >= Target()) return;  // chains found since may say more
  path_.push_back(arcs_.sets(stage + 1)[arc.to]);
  path_arcs_.push_back(arc);
  if (RankFits(stage)) Branch(stage + 1, arc.to);
  path_.pop_back();
  path_arcs_.pop_back();
}

// Whether the stages cut so far leave the rank of the last one within memory.
bool GraphStepSearch::RankFits(int stage) const {
  const Placement& placement = problem_.timetable->placement;
  if (std::isinf(problem_.memory) || placement.chunks() == 1) return true;  // its arcs fit
  return problem_.RankBytes(placement.rank(stage), path_) <= problem_.memory;
}

void GraphStepSearch::Leaf() {
  const StepCosts costs = problem_.Costs(path_);
  Consider(path_, costs);
  if (proofs_.size() >= kMostProofs) return;
  answer_.steps += model_.action_count() + 4 * arcs_.count();
  const ChainMean chain(model_.CriticalChain(costs));
  proofs_.push_back(chain);
  to_end_.push_back(arcs_.Measure(chain));
  double spent = 0;
  for (size_t stage = 0; stage <= path_arcs_.size(); ++stage) {
    spent_[stage].resize(proofs_.size());
    spent_[stage].back() = spent;
    if (stage < path_arcs_.size()) spent += path_arcs_[stage].Seconds(chain.stages[stage]);
  }
}

}  // namespace sluice
