// Branch and bound, with bounds made from chains of actions.
//
// A step lasts as long as the longest chain of actions that wait for one another, so any chain P of
// the timetable is a lower bound, and what P takes is a sum over stages: of the counts of F, I and
// W in P times what these cost in the stage. Over all assignments that is a shortest path through
// "stage, cut" (chain_pool.h). Hence:
//   1. Seeds: assignments that are good for sure (bottleneck, even, least memory).
//   2. The root: each rank's own chain bounds the choices, and the ranks as wholes
//      (rank_columns.h), one by one and each with the next (neighbour_columns.h), the step; their
//      columns suggest more assignments, and single layers are moved to improve the best.
//   3. Rounds: the bounds of the choices give a minimax path; it is simulated, its critical chain
//      joins the pool, which raises bounds and drops choices that cannot beat the best assignment
//      known. This alone often closes the gap.
//   4. A depth-first search over the choices left, stage by stage (branch_and_bound.h). Leaves are
//      simulated; one that turns out no better adds its critical chain, so that its like are left
//      out earlier.
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
#include "partitioner/search/branch_and_bound.h"

namespace sluice {
namespace {

// Chains that a search collects.
constexpr int kMaxChains = 600;
constexpr int kMaxRounds = 400;
constexpr int kMaxStalledRounds = 3;
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

StageAssignment AssignmentOf(const std::vector<LayerChoice>& path) {
  StageAssignment assignment;
  for (const LayerChoice& choice : path) {
    assignment.partition.push_back({choice.from, choice.to - 1});
    assignment.recompute.push_back(choice.policy);
  }
  return assignment;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PartitionSearch>> PartitionSearch::Create(
    const PartitionProblem& problem) {
  if (absl::Status status = ValidateProblem(problem); !status.ok()) return status;
  absl::StatusOr<StepModel> model = StepModel::Compile(*problem.timetable);
  if (!model.ok()) return model.status();
  return absl::WrapUnique(new PartitionSearch(problem, *std::move(model)));
}

absl::StatusOr<PartitionAnswer> PartitionSearch::Run(const SearchOptions& options) {
  limits_.options = options;
  // With something to beat, a look at the whole ranks may be all that it takes.
  const bool bounded = limits_.options.cutoff < kInfinity;
  const double target = Target();
  if (bounded && BoundRoot() >= Target()) return Answer();
  if (!seeded_) Seed();
  if (!bounded || Target() < target) BoundRoot();
  if (root_bound_ < Target() && best_.assignment.partition.empty()) {
    SeedLeastMemory();
    if (!best_.assignment.partition.empty()) BoundRoot();
  }
  if (limits_.Stopped() && root_bound_ < Target()) limits_.unsearched = 0;
  if (limits_.unsearched == 0) return Answer();
  if (root_bound_ < Target()) ImproveBest();
  if (root_bound_ < Target()) {
    root_bound_ = std::max(root_bound_, Rounds());
    if (root_bound_ < Target()) Descend();
  }
  return Answer();
}

double PartitionSearch::Consider(const StageAssignment& assignment, const StepCosts& costs) {
  const double seconds = model_.Makespan(costs);
  limits_.steps += model_.action_count();
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
  const int64_t share = limits_.steps + limits_.options.budget / 10;
  best_ = Improve(problem_, feasible_, std::move(best_), share, &model_, &limits_.steps,
                  limits_.options.stop);
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
  if (!balanced) return kInfinity;  // not even one stage per rank fits: the choices will say so
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
  pool_.Add(chain, &*choices_);
  limits_.steps += 2 * choices_->count();
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

double PartitionSearch::Rounds() {
  double bound = 0;
  for (int round = 0, stalled = 0; round < kMaxRounds && stalled < kMaxStalledRounds; ++round) {
    if (limits_.OutOfBudget()) break;
    if (!choices_->DropSlow(Target())) return kInfinity;
    std::vector<LayerChoice> path;
    const double least = choices_->LeastBound(&path);
    if (least >= Target()) return least;
    stalled = least > bound * (1 + kProofTolerance) ? 0 : stalled + 1;
    bound = std::max(bound, least);
    const StageAssignment assignment = AssignmentOf(path);
    const std::vector<RangeCost> stages = PriceStages(problem_, assignment);
    const StepCosts costs = ToStepCosts(problem_, stages);
    const double before = best_.seconds;
    if (feasible_.Fits(stages)) Consider(assignment, costs);
    if (best_.seconds < before) ImproveBest();
    limits_.steps += model_.action_count();
    AddChain(model_.CriticalChain(costs));
  }
  if (limits_.Stopped()) return std::max(bound, choices_->LeastBound(nullptr));
  pool_.Refresh(&*choices_);
  limits_.steps += 2 * choices_->count() * pool_.size();
  if (!choices_->DropSlow(Target())) return kInfinity;
  return std::max(bound, choices_->LeastBound(nullptr));
}

// Where rounds of bounds leave something open.
void PartitionSearch::Descend() {
  using Path = std::vector<LayerChoice>;
  BranchAndBound<LayerChoice> search(&*choices_, &pool_, &limits_,
                                     {.target = [this] { return Target(); },
                                      .fits = [this](const Path& path) { return RankFits(path); },
                                      .leaf = [this](const Path& path) { return Leaf(path); }});
  search.Run();
}

// Whether the stages chosen so far leave the rank of the last one within memory.
bool PartitionSearch::RankFits(const std::vector<LayerChoice>& path) {
  const Placement& placement = problem_.timetable->placement;
  // With one stage per rank, each choice was listed because it fits.
  if (!problem_.machines.limits_memory() || placement.chunks() == 1) return true;
  const int stage = static_cast<int>(path.size()) - 1;
  const int rank = placement.rank(stage);
  std::vector<RangeCost> chunks;
  for (int held : feasible_.in_flight().stages(rank)) {
    if (held > stage) break;
    const LayerChoice& choice = path[held];
    chunks.push_back(problem_.Price(held, choice.from, choice.to, choice.policy));
  }
  const InFlight& in_flight = feasible_.in_flight();
  limits_.steps += static_cast<int64_t>(in_flight.moments(rank).size() * chunks.size());
  return in_flight.PeakBytes(rank, chunks) <= problem_.machines.MemoryOf(rank);
}

std::optional<ChainCounts> PartitionSearch::Leaf(const std::vector<LayerChoice>& path) {
  const StageAssignment assignment = AssignmentOf(path);  // fits: each rank was checked
  const StepCosts costs = ToStepCosts(problem_, PriceStages(problem_, assignment));
  Consider(assignment, costs);
  if (pool_.size() >= kMaxChains) return std::nullopt;
  limits_.steps += model_.action_count() + 2 * choices_->count();
  return model_.CriticalChain(costs);
}

absl::StatusOr<PartitionAnswer> PartitionSearch::Answer() const {
  const bool complete = limits_.unsearched >= Target();
  if (best_.assignment.partition.empty()) {
    if (!complete) {
      return absl::DeadlineExceededError("no partition that fits was found within the budget");
    }
    return absl::NotFoundError(limits_.options.cutoff == kInfinity
                                   ? "no partition fits into memory"
                                   : "no partition that fits is fast enough");
  }
  PartitionAnswer answer;
  answer.assignment = best_.assignment;
  answer.seconds = best_.seconds;
  answer.lower_bound =
      complete ? std::min(best_.seconds, limits_.options.cutoff) / (1 + limits_.options.gap)
               : std::min(best_.seconds, std::max(root_bound_, limits_.unsearched));
  answer.optimal = complete && limits_.options.gap == 0 && best_.seconds <= limits_.options.cutoff;
  answer.steps = limits_.steps;
  return answer;
}

}  // namespace sluice
