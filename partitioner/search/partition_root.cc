// The root of PartitionSearch: what is proved of all choices together, before any round.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "partitioner/bounds/neighbour_columns.h"
#include "partitioner/bounds/rank_columns.h"
#include "partitioner/search/partition_search.h"

namespace sluice {
namespace {

constexpr int64_t kMostProbed = 20'000'000;  // choices measured for the ranks' chains
constexpr int kSuggestions = 12;
constexpr int kPassesOfRankChains = 4;
constexpr int kPassesOfPairChains = 6;
constexpr double kNeighbourSlack = 1.001;
constexpr double kWorthAnother = 1.0005;
// Slow ranks keep a chain to themselves; without slowdown it is as long as it can be.
constexpr double kNeighbourSlowdowns[] = {4, 1};
// Makes one rank the slowest, so that its chain stays on it.
constexpr double kProbeSlowdowns[] = {4, 2, 1.1};

}  // namespace

// Costs with the same work at every stage: that of the best assignment known, whose recomputation
// says which waits are the long ones, or of none that recomputes.
StepCosts PartitionSearch::EvenCosts() const {
  const int stages = problem_.stages();
  RangeCost all =
      problem_.machines.costs->Price(0, problem_.layer_count(), problem_.policies.front());
  if (!best_.assignment.partition.empty()) {
    all = RangeCost();
    for (const RangeCost& stage : PriceStages(problem_, best_.assignment)) {
      all.forward += stage.forward;
      all.input_grad += stage.input_grad;
      all.weight_grad += stage.weight_grad;
      all.tail += stage.tail;
    }
  }
  const auto share = [&](double total) { return std::vector<double>(stages, total / stages); };
  StepCosts even;
  even.forward = share(all.forward);
  even.input_grad = share(all.input_grad);
  even.weight_grad = share(all.weight_grad);
  even.backward = share(all.backward());
  even.tail = share(all.tail);
  for (int stage = 0; stage + 1 < stages; ++stage) {
    even.send.push_back(
        problem_.SendSeconds(stage, problem_.machines.costs->layers()[stage].output_bytes));
  }
  return even;
}

// One chain through every rank, as it is where that rank is the slowest and the others share the
// work evenly, so that none is without a bound from the start.
std::vector<std::vector<ChainCounts>> PartitionSearch::Probe() {
  const StepCosts even = EvenCosts();
  std::vector<std::vector<ChainCounts>> chains;
  for (double slowdown : kProbeSlowdowns) {
    if (limits_.Stopped() && !chains.empty()) break;
    chains.push_back(model_.RankChains(even, slowdown));
    limits_.steps += kPassesOfRankChains * model_.action_count();
  }
  const std::vector<ChainCounts>& own = chains.front();
  const int64_t most = std::max<int64_t>(1, kMostProbed / std::max<int64_t>(1, choices_->count()));
  const size_t stride = 1 + own.size() / static_cast<size_t>(most);
  for (size_t rank = 0; rank < own.size() && !limits_.Stopped(); rank += stride)
    AddChain(own[rank]);
  return chains;
}

// The least that a step takes, over the choices that could make it shorter than what is known.
double PartitionSearch::BoundRoot() {
  if (limits_.Stopped()) {
    limits_.unsearched = 0;
    return root_bound_;
  }
  choices_.emplace(problem_, feasible_, Target());
  pool_ = {};
  limits_.unsearched =
      choices_->complete() ? kInfinity : 0;  // nothing can be said of what is not listed
  if (!choices_->complete()) return root_bound_;
  if (!choices_->DropDeadEnds()) return root_bound_ = kInfinity;
  const std::vector<std::vector<ChainCounts>> chains = Probe();
  root_bound_ = std::max(root_bound_, choices_->LeastBound(nullptr));
  if (!limits_.OutOfBudget() && root_bound_ < Target()) BoundRanks(chains);
  return root_bound_;
}

void PartitionSearch::BoundRanks(std::vector<std::vector<ChainCounts>> chains) {
  if (!choices_->DropSlow(Target())) {
    root_bound_ = kInfinity;
    return;
  }
  const RankColumns columns(problem_, feasible_, *choices_, std::move(chains));
  if (!columns.usable()) return;
  root_bound_ = std::max(root_bound_, columns.LeastSeconds(limits_.options.budget / 2));
  limits_.steps += columns.steps();
  if (root_bound_ >= Target()) return;
  for (const StageAssignment& assignment : columns.Suggest(kSuggestions)) Try(assignment);
  if (root_bound_ < Target()) BoundNeighbours(columns);
}

// Rounds: the columns with the least bounds make an assignment, and the chains through its ranks,
// one and two at a time, bound the next ones. They go on while they prove or find something.
void PartitionSearch::BoundNeighbours(const RankColumns& columns) {
  NeighbourColumns neighbours(columns, problem_.layer_count());
  if (!neighbours.usable()) return;
  AddNeighbourChains(EvenCosts(), &neighbours);
  double bound = 0;
  for (bool better = true; better && !limits_.OutOfBudget();) {
    const double known = best_.seconds, before = bound;
    bound = neighbours.LeastSeconds();
    root_bound_ = std::max(root_bound_, bound);
    if (root_bound_ >= Target()) return;
    const std::optional<StageAssignment> assignment =
        neighbours.Assignment(bound * kNeighbourSlack);
    if (!assignment) return;
    const std::vector<RangeCost> stages = PriceStages(problem_, *assignment);
    const StepCosts costs = ToStepCosts(problem_, stages);
    if (feasible_.Fits(stages)) Consider(*assignment, costs);
    AddNeighbourChains(costs, &neighbours);
    better = bound > before * kWorthAnother || best_.seconds * kWorthAnother < known;
  }
}

void PartitionSearch::AddNeighbourChains(const StepCosts& costs, NeighbourColumns* neighbours) {
  const int64_t before = neighbours->steps();
  for (double slowdown : kNeighbourSlowdowns) {
    neighbours->Add(model_.PairChains(costs, slowdown));
    limits_.steps += kPassesOfPairChains * model_.action_count();
  }
  std::vector<ChainCounts> own = model_.RankChains(costs, kNeighbourSlowdowns[0]);
  limits_.steps += kPassesOfRankChains * model_.action_count();
  neighbours->Add(own);
  own.erase(own.begin());  // the last rank's, too, and the others with the rank before
  neighbours->Add(own);
  limits_.steps += neighbours->steps() - before;
}

}  // namespace sluice
