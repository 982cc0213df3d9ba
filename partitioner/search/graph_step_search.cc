// Branch and bound over the cuts of a graph, with bounds made of chains of actions.
//
// A step lasts as long as the longest chain of actions that wait for one another. What a chain
// takes is a sum over stages, and so is what a mean of chains takes, which is no longer than the
// longest: its shortest pipeline (GraphLengths: no pairs of cuts needed) bounds every step.
//   1. Rounds look for the mean that bounds best. Each shortest pipeline is simulated: it may be
//      the best so far, and its critical chain joins the others; chains longer there than the mean
//      gain weight (exponentiated gradient on the dual of the linear relaxation).
//   2. Cuts that the best mean proves too long are dropped. What is left of pairs becomes choices,
//      and the rounds go on over these, which know about memory.
//   3. A depth-first search over the choices (branch_and_bound.h), cut where any chain collected, or the
//      mean, takes too long with its exact seconds so far and its least to the end.
#include "partitioner/search/graph_step_search.h"

#include <algorithm>
#include <cmath>

#include "absl/memory/memory.h"
#include "partitioner/bounds/any_cuts.h"
#include "partitioner/search/branch_and_bound.h"

namespace sluice {
namespace {

constexpr double kSlowdowns[] = {4, 2, 1.1};
constexpr int64_t kMostRounds = 1000, kLeastRounds = 10;
// Rounds without progress before the stride is halved, and how often it is.
constexpr int kPatience = 12;
constexpr int kHalvings = 6;
constexpr double kProgress = 1e-5;
constexpr size_t kMostChains = 400;
constexpr int kMostProofs = 160;
constexpr int64_t kMostChoices = 3'000'000;
// Of the pairs of a cut and a stage: lengths are kept for each.
constexpr int64_t kMostCells = 20'000'000;
// Of the budget, for measuring chain by chain.
constexpr int64_t kShareOfMeasures = 4;
// Of the budget, for the bound over cuts that are not listed.
constexpr int64_t kShareOfAnyCuts = 8;

}  // namespace

absl::StatusOr<std::unique_ptr<GraphStepSearch>> GraphStepSearch::Create(
    const GraphStepProblem& problem) {
  absl::StatusOr<StepModel> model = StepModel::Compile(*problem.timetable);
  if (!model.ok()) return model.status();
  return absl::WrapUnique(new GraphStepSearch(problem, *std::move(model)));
}

GraphStepAnswer GraphStepSearch::Run(const SearchOptions& options) {
  limits_.options = options;
  const int64_t cells = static_cast<int64_t>(problem_.stages() + 1) * problem_.work->sets.size();
  // Every rank is as busy as the work shared evenly, at least.
  const int whole = problem_.work->whole();
  best_.seconds = problem_.timetable->micro_batches *
                  (problem_.work->forward[whole] + problem_.work->backward[whole]) /
                  problem_.timetable->placement.ranks();
  if (!problem_.work->sets.all()) {
    BoundAnyCuts();
    best_.seconds = std::max(best_.seconds, any_cuts_bound_);
  }
  // With something to beat, no more is done than what there is time for.
  const bool too_late = limits_.options.cutoff < kInfinity && limits_.Stopped();
  if (best_.seconds >= Target() || cells > kMostCells || too_late) {
    Finish(best_.seconds);
    return answer_;
  }
  GraphLengths lengths(problem_);
  Probe();
  const auto shortest = [&](const ChainMean& mean, StepCosts* costs, GraphCuts* cuts) {
    const double least = lengths.Shortest(mean, cuts);
    if (least < kInfinity) *costs = problem_.Costs(*cuts);
    return least;
  };
  Rounds(shortest, lengths.pass_steps(), limits_.options.budget / 3, &best_);
  if (best_.mean.stages.empty() || best_.seconds >= Target() || !DropCuts(&lengths)) {
    Finish(best_.seconds);
    return answer_;
  }
  if (BoundChoices()) Descend();
  Finish(std::max(best_.seconds, std::min(limits_.unsearched, Target())));
  return answer_;
}

// `lower_bound` holds for the cuts that are listed.
void GraphStepSearch::Finish(double lower_bound) {
  if (!problem_.work->sets.all()) lower_bound = any_cuts_bound_;
  answer_.steps = limits_.steps;
  const double target = Target();
  const double incumbent = std::min(answer_.seconds, limits_.options.cutoff);
  answer_.complete = lower_bound >= target;
  answer_.lower_bound =
      answer_.complete ? incumbent / (1 + limits_.options.gap) : std::min(lower_bound, incumbent);
}

// What AnyCuts says, and the mean of chains that says most there.
void GraphStepSearch::BoundAnyCuts() {
  const AnyCuts any(problem_);
  Proof proof;
  proof.seconds = any.seconds();
  const auto shortest = [&any](const ChainMean& mean, StepCosts* costs, GraphCuts*) {
    return any.Shortest(mean, costs);
  };
  const auto nodes = static_cast<int64_t>(problem_.work->graph.nodes.size());
  if (proof.seconds < Target()) {
    Probe();
    Rounds(shortest, nodes * problem_.stages(), limits_.options.budget / kShareOfAnyCuts, &proof);
  }
  any_cuts_bound_ = proof.seconds;
  // Other chains say most about the cuts that are listed.
  chains_.clear();
  weights_.clear();
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
    even.send.push_back(problem_.LinkAfter(stage).Seconds(problem_.work->sets.cut_bytes(0)));
  }
  for (const double slowdown : kSlowdowns) {
    for (const ChainCounts& chain : model_.RankChains(even, slowdown)) AddChain(ChainMean(chain));
    limits_.steps += 4 * model_.action_count();
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
  limits_.steps += model_.action_count();
  if (seconds < answer_.seconds && problem_.Fits(cuts)) {
    answer_.seconds = seconds;
    answer_.cuts = cuts;
  }
  return seconds;
}

void GraphStepSearch::Rounds(const ShortestWay& shortest, int64_t pass_steps, int64_t budget,
                             Proof* best) {
  double stride = 2;
  int stalled = 0;
  double shown = best->seconds;  // the bound when progress was last made
  GraphCuts cuts;
  StepCosts costs;
  const int64_t end = limits_.steps + budget;
  // Where there are few cuts, looking at all of them is quicker.
  const int64_t most = std::min(kMostRounds, kLeastRounds + pass_steps / kLeastRounds);
  for (int64_t round = 0; round < most && limits_.steps < end; ++round) {
    if (round > 0 && limits_.OutOfBudget()) return;
    const ChainMean mean = Mean();
    const double least = shortest(mean, &costs, &cuts);
    limits_.steps += pass_steps;
    if (least > best->seconds || best->mean.stages.empty()) {
      best->seconds = std::max(best->seconds, least);
      best->mean = mean;
    }
    if (best->seconds >= Target() || least == kInfinity) return;
    if (!cuts.empty()) Consider(cuts, costs);
    if (best->seconds > shown * (1 + kProgress)) {
      shown = best->seconds;
      stalled = 0;
    } else if (++stalled % kPatience == 0) {
      stride /= 2;
      if (stalled >= kPatience * kHalvings) return;
    }
    limits_.steps += model_.action_count();
    AddChain(ChainMean(model_.CriticalChain(costs)));
    Reweigh(costs, least, stride, best->seconds);
  }
}

// Towards the chains that take long where their mean takes least.
void GraphStepSearch::Reweigh(const StepCosts& costs, double least, double stride, double bound) {
  std::vector<double> excess;
  double most = 0;
  for (const ChainMean& chain : chains_) {
    excess.push_back(chain.Seconds(costs) - least);
    most = std::max(most, std::abs(excess.back()));
  }
  limits_.steps += static_cast<int64_t>(chains_.size()) * problem_.stages();
  if (most == 0) return;
  const double open = std::min(std::min(answer_.seconds, limits_.options.cutoff) - bound, most);
  double sum = 0;
  for (size_t i = 0; i < chains_.size(); ++i) {
    weights_[i] *= std::exp(stride * open / most * excess[i] / most);
    sum += weights_[i];
  }
  for (double& weight : weights_) weight /= sum;
}

// False when no pipeline is left, too many to look at, or no time to.
bool GraphStepSearch::DropCuts(GraphLengths* lengths) {
  const int64_t once = 2 * lengths->pass_steps();
  if (!std::isinf(Target()) &&
      once * static_cast<int64_t>(chains_.size()) < limits_.options.budget / kShareOfMeasures) {
    for (const ChainMean& chain : chains_) {
      if (limits_.Stopped()) break;
      lengths->Drop(chain, Target());
      limits_.steps += once;
    }
  }
  if (limits_.Stopped()) return false;
  lengths->Drop(best_.mean, Target());
  limits_.steps += once;
  if (!lengths->Alive(0, 0)) {
    best_.seconds = std::max(best_.seconds, Target());
    return false;
  }
  const ListedChoices listed =
      choices_.Build(problem_, *lengths, best_.mean, Target(), kMostChoices);
  if (listed == ListedChoices::kNone) best_.seconds = std::max(best_.seconds, Target());
  return listed == ListedChoices::kAll;
}

// False when the bounds alone are proof.
bool GraphStepSearch::BoundChoices() {
  const auto shortest = [&](const ChainMean& mean, StepCosts* costs, GraphCuts* cuts) {
    choices_.DropSlow(Target());
    const double least = choices_.Shortest(mean, cuts);
    if (least < kInfinity) *costs = problem_.Costs(*cuts);
    return least;
  };
  Rounds(shortest, 6 * choices_.count(), limits_.options.budget / 3, &best_);
  choices_.DropSlow(Target());
  return best_.seconds < Target();
}

void GraphStepSearch::Descend() {
  // The mean says most; then the chains that it is made of.
  std::vector<size_t> order(chains_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return weights_[a] > weights_[b]; });
  const int64_t once = 4 * choices_.count();
  const auto add = [&](const ChainMean& chain) {
    proofs_.Add(chain, &choices_);
    limits_.steps += once;
  };
  size_t proofs = 1;
  for (; proofs <= order.size() && proofs < kMostProofs / 2; ++proofs) {
    if (once * static_cast<int64_t>(proofs) >= limits_.options.budget / kShareOfMeasures) break;
  }
  add(best_.mean);
  for (size_t i = 0; i + 1 < proofs && !limits_.Stopped(); ++i) add(chains_[order[i]]);
  best_.seconds = std::max(best_.seconds, choices_.LeastBound(nullptr));
  if (best_.seconds >= Target()) return;
  using Path = std::vector<GraphChoice>;
  BranchAndBound<GraphChoice> search(&choices_, &proofs_, &limits_,
                                     {.target = [this] { return Target(); },
                                      .fits = [this](const Path& path) { return RankFits(path); },
                                      .leaf = [this](const Path& path) { return Leaf(path); }});
  search.Run();
}

// Whether the stages chosen so far leave the rank of the last one within memory.
bool GraphStepSearch::RankFits(const std::vector<GraphChoice>& path) {
  const Placement& placement = problem_.timetable->placement;
  // With one stage per rank, each choice was listed because it fits.
  if (!problem_.machines.limits_memory() || placement.chunks() == 1) return true;
  const int rank = placement.rank(static_cast<int>(path.size()) - 1);
  // The cuts are listed, and each chunk is looked at in each moment.
  const size_t moments = problem_.in_flight->moments(rank).size();
  limits_.steps +=
      static_cast<int64_t>(path.size() + moments * problem_.in_flight->stages(rank).size());
  return problem_.RankFits(rank, choices_.CutsOf(path));
}

std::optional<ChainMean> GraphStepSearch::Leaf(const std::vector<GraphChoice>& path) {
  const GraphCuts cuts = choices_.CutsOf(path);
  const StepCosts costs = problem_.Costs(cuts);
  Consider(cuts, costs);
  if (proofs_.size() >= kMostProofs) return std::nullopt;
  limits_.steps += model_.action_count() + 4 * choices_.count();
  return ChainMean(model_.CriticalChain(costs));
}

}  // namespace sluice
