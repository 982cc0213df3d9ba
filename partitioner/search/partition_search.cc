// Branch and bound, with bounds made from chains of actions.
//
// A step lasts as long as the longest chain of actions that wait for one another, so any chain P of
// the timetable is a lower bound, and what P takes is a sum over stages: of the counts of F, I and
// W in P times what these cost in the stage. Over all assignments that is a shortest path through
// "stage, layer" (chain_pool.h). Hence:
//   1. Seeds: assignments that are good for sure (bottleneck, even, least memory).
//   2. The root: each rank's own chain bounds the arcs, and the ranks as wholes (rank_columns.h),
//   one
//      by one and each with the next (neighbour_columns.h), the step; their columns suggest more
//      assignments, and single layers are moved to improve the best.
//   3. Rounds: the arcs' bounds give a minimax path; it is simulated, its critical chain joins the
//      pool, which raises bounds and cuts arcs that cannot beat the best assignment known. This
//      alone often closes the gap.
//   4. A depth-first search over the arcs left, stage by stage (partition_descent.cc). A partial
//      assignment is cut when for some chain its exact seconds so far plus its least seconds to the
//      end reach the best known. Leaves are simulated; one that turns out no better adds its
//      critical chain, so that its like are cut earlier.
// When the budget ends, the least bound among what was not searched is the proven lower bound.
#include "partitioner/search/partition_search.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "partitioner/bounds/neighbour_columns.h"
#include "partitioner/bounds/rank_columns.h"

namespace sluice {
namespace {

constexpr int kMaxRounds = 400;
constexpr int kMaxStalledRounds = 3;
constexpr int64_t kMostProbed = 20'000'000;  // arcs measured for the ranks' chains
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

absl::StatusOr<std::unique_ptr<PartitionSearch>> PartitionSearch::Create(
    const PartitionProblem& problem) {
  if (absl::Status status = ValidateProblem(problem); !status.ok()) return status;
  absl::StatusOr<StepModel> model = StepModel::Compile(*problem.timetable);
  if (!model.ok()) return model.status();
  return absl::WrapUnique(new PartitionSearch(problem, *std::move(model)));
}

absl::StatusOr<PartitionAnswer> PartitionSearch::Run(const SearchOptions& options) {
  options_ = options;
  // With something to beat, a look at the whole ranks may be all that it takes.
  const bool bounded = options_.cutoff < kInfinity;
  const double target = Target();
  if (bounded && BoundRoot() >= Target()) return Answer();
  if (!seeded_) Seed();
  if (!bounded || Target() < target) BoundRoot();
  if (root_bound_ < Target() && best_.assignment.partition.empty()) {
    SeedLeastMemory();
    if (!best_.assignment.partition.empty()) BoundRoot();
  }
  if (stopped() && root_bound_ < Target()) unsearched_ = 0;
  if (unsearched_ == 0) return Answer();
  if (root_bound_ < Target()) ImproveBest();
  if (root_bound_ < Target()) {
    root_bound_ = std::max(root_bound_, Rounds());
    if (root_bound_ < Target()) Descend();
  }
  return Answer();
}

double PartitionSearch::Consider(const StageAssignment& assignment, const StepCosts& costs) {
  const double seconds = model_.Makespan(costs);
  steps_ += model_.action_count();
  if (seconds < best_.seconds) best_ = {assignment, seconds};
  return seconds;
}

void PartitionSearch::Try(const StageAssignment& assignment) {
  const std::vector<RangeCost> stages = PriceStages(problem_, assignment);
  if (problem_.fixed && assignment.partition != *problem_.fixed) return;
  if (feasible_.Fits(stages)) Consider(assignment, ToStepCosts(problem_, stages));
}

void PartitionSearch::ImproveBest() {
  if (best_.assignment.partition.empty()) return;
  const int64_t share = steps_ + options_.budget / 10;
  best_ = Improve(problem_, feasible_, std::move(best_), share, &model_, &steps_, options_.stop);
}

double PartitionSearch::Seed() {
  seeded_ = true;
  const int layers = problem_.layer_count();
  const auto seconds = [&](int stage, int first, int end) {
    const std::vector<Recompute> policies = feasible_.Policies(stage, first, end);
    if (policies.empty()) return kInfinity;
    const RangeCost cost = problem_.Price(stage, first, end, policies.front());
    return cost.forward + cost.backward();
  };
  const std::optional<MinimaxAnswer> balanced =
      problem_.fixed ? FixedAnswer() : MonotoneMinimax(layers, problem_.stages(), seconds).Run();
  if (!balanced) return kInfinity;  // not even one stage a rank fits: the arcs will say so
  for (const Partition& partition :
       {balanced->partition, *EvenPartition(layers, problem_.stages())}) {
    if (const auto seed = feasible_.WithFastestPolicies(partition)) Try(*seed);
  }
  if (problem_.machines.limits_memory() && problem_.timetable->placement.chunks() > 1) {
    for (Recompute policy : problem_.policies) {
      Try({balanced->partition, std::vector<Recompute>(problem_.stages(), policy)});
    }
  }
  return best_.seconds;
}

// What fits where nothing quicker to find does.
void PartitionSearch::SeedLeastMemory() {
  if (problem_.machines.limits_memory() && problem_.timetable->placement.chunks() > 1) {
    Try(feasible_.LeastMemory());
  }
}

void PartitionSearch::AddChain(const ChainCounts& chain) {
  pool_.Add(chain, &*arcs_);
  steps_ += 2 * arcs_->count();
}

std::optional<MinimaxAnswer> PartitionSearch::FixedAnswer() const {
  MinimaxAnswer answer;
  answer.partition = *problem_.fixed;
  return answer;
}

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
    if (stopped() && !chains.empty()) break;
    chains.push_back(model_.RankChains(even, slowdown));
    steps_ += kPassesOfRankChains * model_.action_count();
  }
  const std::vector<ChainCounts>& own = chains.front();
  const int64_t most = std::max<int64_t>(1, kMostProbed / std::max<int64_t>(1, arcs_->count()));
  const size_t stride = 1 + own.size() / static_cast<size_t>(most);
  for (size_t rank = 0; rank < own.size() && !stopped(); rank += stride) AddChain(own[rank]);
  return chains;
}

// The least that a step takes, over the arcs that could make it shorter than what is known.
double PartitionSearch::BoundRoot() {
  if (stopped()) {
    unsearched_ = 0;
    return root_bound_;
  }
  arcs_.emplace(problem_, feasible_, Target());
  pool_ = ChainPool();
  unsearched_ = arcs_->complete() ? kInfinity : 0;  // nothing can be said of what is not listed
  if (!arcs_->complete()) return root_bound_;
  if (!arcs_->DropDeadEnds()) return root_bound_ = kInfinity;
  const std::vector<std::vector<ChainCounts>> chains = Probe();
  root_bound_ = std::max(root_bound_, arcs_->LeastBound(nullptr));
  if (!out_of_budget() && root_bound_ < Target()) BoundRanks(chains);
  return root_bound_;
}

void PartitionSearch::BoundRanks(std::vector<std::vector<ChainCounts>> chains) {
  arcs_->Cut(Target());
  if (!arcs_->DropDeadEnds()) {
    root_bound_ = kInfinity;
    return;
  }
  const RankColumns columns(problem_, feasible_, *arcs_, std::move(chains));
  if (!columns.usable()) return;
  root_bound_ = std::max(root_bound_, columns.LeastSeconds(options_.budget / 2));
  steps_ += columns.steps();
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
  for (bool better = true; better && !out_of_budget();) {
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
    steps_ += kPassesOfPairChains * model_.action_count();
  }
  std::vector<ChainCounts> own = model_.RankChains(costs, kNeighbourSlowdowns[0]);
  steps_ += kPassesOfRankChains * model_.action_count();
  neighbours->Add(own);
  own.erase(own.begin());  // the last rank's, too, and the others with the rank before
  neighbours->Add(own);
  steps_ += neighbours->steps() - before;
}

double PartitionSearch::Rounds() {
  double bound = 0;
  for (int round = 0, stalled = 0; round < kMaxRounds && stalled < kMaxStalledRounds; ++round) {
    if (out_of_budget()) break;
    arcs_->Cut(Target());
    if (!arcs_->DropDeadEnds()) return kInfinity;
    const double least = arcs_->LeastBound(&path_);
    if (least >= Target()) return least;
    stalled = least > bound * (1 + kProofTolerance) ? 0 : stalled + 1;
    bound = std::max(bound, least);
    const StageAssignment assignment = PathAssignment();
    const std::vector<RangeCost> stages = PriceStages(problem_, assignment);
    const StepCosts costs = ToStepCosts(problem_, stages);
    const double before = best_.seconds;
    if (feasible_.Fits(stages)) Consider(assignment, costs);
    if (best_.seconds < before) ImproveBest();
    steps_ += model_.action_count();
    AddChain(model_.CriticalChain(costs));
  }
  if (stopped()) return std::max(bound, arcs_->LeastBound(nullptr));
  pool_.Refresh(&*arcs_);
  steps_ += 2 * arcs_->count() * pool_.size();
  arcs_->Cut(Target());
  if (!arcs_->DropDeadEnds()) return kInfinity;
  return std::max(bound, arcs_->LeastBound(nullptr));
}

StageAssignment PartitionSearch::PathAssignment() const {
  StageAssignment assignment;
  for (const StageArc& arc : path_) {
    assignment.partition.push_back({arc.first, arc.end - 1});
    assignment.recompute.push_back(arc.policy);
  }
  return assignment;
}

absl::StatusOr<PartitionAnswer> PartitionSearch::Answer() const {
  const bool complete = unsearched_ >= Target();
  if (best_.assignment.partition.empty()) {
    if (!complete) {
      return absl::DeadlineExceededError("no partition that fits was found within the budget");
    }
    return absl::NotFoundError(options_.cutoff == kInfinity
                                   ? "no partition fits into memory"
                                   : "no partition that fits is fast enough");
  }
  PartitionAnswer answer;
  answer.assignment = best_.assignment;
  answer.seconds = best_.seconds;
  answer.lower_bound = complete ? std::min(best_.seconds, options_.cutoff) / (1 + options_.gap)
                                : std::min(best_.seconds, std::max(root_bound_, unsearched_));
  answer.optimal = complete && options_.gap == 0 && best_.seconds <= options_.cutoff;
  answer.steps = steps_;
  return answer;
}

}  // namespace sluice
