// Branch and bound, with bounds made from chains of actions.
//
// A step lasts as long as the longest chain of actions that wait for one another, so any chain P of
// the timetable is a lower bound, and what P takes is a sum over stages: of the counts of F, I and
// W in P times what these cost in the stage. Over all assignments that is a shortest path through
// "stage, layer" (chain_pool.h). Hence:
//   1. Seeds: assignments that are good for sure (bottleneck, even, least memory), improved by
//   moving single layers.
//   2. Rounds: the arcs' bounds give a minimax path; it is simulated, its critical chain joins the
//   pool, which raises
//      bounds and cuts arcs that cannot beat the best assignment known. This alone often closes the
//      gap.
//   3. A depth-first search over the arcs left, stage by stage. A partial assignment is cut when
//   for some chain its exact
//      seconds so far plus its least seconds to the end reach the best known. Leaves are simulated;
//      one that turns out no better adds its critical chain, so that its like are cut earlier.
// When the budget ends, the least bound among what was not searched is the proven lower bound.
#include "partitioner/exact_partition.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "partitioner/chain_pool.h"
#include "partitioner/feasible.h"
#include "partitioner/local_search.h"
#include "partitioner/minimax.h"
#include "partitioner/rank_columns.h"
#include "partitioner/stage_arcs.h"
#include "partitioner/step_model.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kMaxRounds = 400;
constexpr int kMaxStalledRounds = 3;
constexpr int kMaxChains = 600;
constexpr int kSuggestions = 12;
constexpr int kPassesOfRankChains = 4;
// Makes one stage the slowest, so that the critical chain runs through it.
constexpr double kProbeSlowdown = 2;

class Search {
 public:
  Search(const PartitionProblem& problem, const SearchOptions& options, StepModel model)
      : problem_(problem),
        options_(options),
        feasible_(problem),
        model_(std::move(model)),
        best_{{}, kInfinity} {}

  absl::StatusOr<PartitionAnswer> Run() {
    // With something to beat, a look at the whole ranks may be all that it takes.
    if (options_.cutoff < kInfinity && BoundRoot() >= Target()) return Answer();
    Seed();
    if (BoundRoot() < Target()) ImproveBest();
    if (getenv("DBG")) fprintf(stderr, "improved %g bound %g steps %.0f\n", best_.seconds, root_bound_, static_cast<double>(steps_));
    if (root_bound_ < Target()) {
      root_bound_ = std::max(root_bound_, Rounds());
    if (getenv("DBG")) fprintf(stderr, "rounds %g bound %g steps %.0f\n", best_.seconds, root_bound_, static_cast<double>(steps_));
      if (root_bound_ < Target()) Descend();
    }
    return Answer();
  }

 private:
  // What an assignment must stay below to be of interest.
  double Target() const {
    return std::min(best_.seconds, options_.cutoff) / (1 + options_.gap) * (1 - kProofTolerance);
  }
  bool out_of_budget() const { return steps_ >= options_.budget; }

  void Seed();
  void Try(const StageAssignment& assignment);
  void ImproveBest();
  std::optional<MinimaxAnswer> FixedAnswer() const;
  double BoundRoot();
  std::vector<ChainCounts> Probe();
  void BoundRanks(std::vector<ChainCounts> chains);
  double Rounds();
  // Simulates an assignment that fits; keeps it when it is the best.
  double Consider(const StageAssignment& assignment, const StepCosts& costs);
  void AddChain(const ChainCounts& chain);

  void Descend();
  void Branch(int stage, int layer);
  void Visit(const StageArc& arc, int stage, double bound);
  double BoundOf(const StageArc& arc, int stage);
  bool RankFits(int stage);
  void Leaf();
  StageAssignment PathAssignment() const;

  absl::StatusOr<PartitionAnswer> Answer() const;

  const PartitionProblem& problem_;
  const SearchOptions& options_;
  const Feasible feasible_;
  StepModel model_;
  TimedAssignment best_;
  std::optional<StageArcs> arcs_;
  ChainPool pool_;
  int64_t steps_ = 0;
  double root_bound_ = 0;
  // Depth-first search: the arcs chosen, the seconds of each chain over them, and the least bound
  // not searched.
  std::vector<StageArc> path_;
  std::vector<std::vector<double>> spent_;  // [stage][chain]
  std::vector<std::vector<double>> to_end_;
  double unsearched_ = kInfinity;
};

double Search::Consider(const StageAssignment& assignment, const StepCosts& costs) {
  const double seconds = model_.Makespan(costs);
  steps_ += model_.action_count();
  if (seconds < best_.seconds) best_ = {assignment, seconds};
  return seconds;
}

void Search::Try(const StageAssignment& assignment) {
  const std::vector<RangeCost> stages = PriceStages(problem_, assignment);
  if (problem_.fixed && assignment.partition != *problem_.fixed) return;
  if (feasible_.Fits(stages)) Consider(assignment, ToStepCosts(problem_, stages));
}

void Search::ImproveBest() {
  if (best_.assignment.partition.empty()) return;
  const int64_t share = steps_ + options_.budget / 10;
  best_ = Improve(problem_, feasible_, std::move(best_), share, &model_, &steps_);
}

void Search::Seed() {
  const int layers = problem_.layer_count();
  const auto seconds = [&](int stage, int first, int end) {
    const std::vector<Recompute> policies = feasible_.Policies(stage, first, end);
    if (policies.empty()) return kInfinity;
    const RangeCost cost = problem_.Price(stage, first, end, policies.front());
    return cost.forward + cost.backward();
  };
  const std::optional<MinimaxAnswer> balanced =
      problem_.fixed ? FixedAnswer() : MonotoneMinimax(layers, problem_.stages(), seconds).Run();
  if (!balanced) return;  // not even one stage a rank fits: the arcs will say so
  for (const Partition& partition :
       {balanced->partition, *EvenPartition(layers, problem_.stages())}) {
    if (const auto seed = feasible_.WithFastestPolicies(partition)) Try(*seed);
  }
  if (problem_.limits_memory() && problem_.timetable->placement.chunks() > 1) {
    for (Recompute policy : problem_.policies) {
      Try({balanced->partition, std::vector<Recompute>(problem_.stages(), policy)});
    }
    Try(feasible_.LeastMemory());
  }
}

void Search::AddChain(const ChainCounts& chain) {
  pool_.Add(chain, &*arcs_);
  steps_ += 2 * arcs_->count();
}

std::optional<MinimaxAnswer> Search::FixedAnswer() const {
  MinimaxAnswer answer;
  answer.partition = *problem_.fixed;
  return answer;
}

// One chain through every rank, as it is where that rank is the slowest, so that none is without a
// bound from the start.
std::vector<ChainCounts> Search::Probe() {
  std::vector<StageArc> path;
  arcs_->LeastBound(&path);
  path_ = path;
  const StageAssignment assignment =
      best_.assignment.partition.empty() ? PathAssignment() : best_.assignment;
  const StepCosts costs = ToStepCosts(problem_, PriceStages(problem_, assignment));
  std::vector<ChainCounts> chains = model_.RankChains(costs, kProbeSlowdown);
  steps_ += kPassesOfRankChains * model_.action_count();
  for (const ChainCounts& chain : chains) AddChain(chain);
  return chains;
}

// The least that a step takes, over the arcs that could make it shorter than what is known.
double Search::BoundRoot() {
  arcs_.emplace(problem_, feasible_, Target());
  pool_ = ChainPool();
  if (!arcs_->DropDeadEnds()) return root_bound_ = kInfinity;
  const std::vector<ChainCounts> chains = Probe();
  root_bound_ = std::max(root_bound_, arcs_->LeastBound(nullptr));
  if (!out_of_budget() && root_bound_ < Target()) BoundRanks(chains);
  return root_bound_;
}

void Search::BoundRanks(std::vector<ChainCounts> chains) {
  arcs_->Cut(Target());
  if (!arcs_->DropDeadEnds()) {
    root_bound_ = kInfinity;
    return;
  }
  const RankColumns columns(problem_, feasible_, *arcs_, std::move(chains));
  if (!columns.usable()) return;
  root_bound_ = std::max(root_bound_, columns.LeastSeconds());
  steps_ += columns.steps();
  if (getenv("DBG")) fprintf(stderr, "columns %.0f bound %g best %g steps %.0f arcs %.0f\n", static_cast<double>(columns.count()), root_bound_, best_.seconds, static_cast<double>(steps_), static_cast<double>(arcs_->count()));
  if (root_bound_ >= Target()) return;
  for (const StageAssignment& assignment : columns.Suggest(kSuggestions)) Try(assignment);
  if (getenv("DBG")) fprintf(stderr, "suggested %g steps %.0f\n", best_.seconds, static_cast<double>(steps_));
}

double Search::Rounds() {
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
  pool_.Refresh(&*arcs_);
  steps_ += 2 * arcs_->count() * pool_.size();
  arcs_->Cut(Target());
  if (!arcs_->DropDeadEnds()) return kInfinity;
  return std::max(bound, arcs_->LeastBound(nullptr));
}

StageAssignment Search::PathAssignment() const {
  StageAssignment assignment;
  for (const StageArc& arc : path_) {
    assignment.partition.push_back({arc.first, arc.end - 1});
    assignment.recompute.push_back(arc.policy);
  }
  return assignment;
}

void Search::Descend() {
  to_end_ = arcs_->BoundsToEnd();
  path_.clear();
  spent_.assign(problem_.stages() + 1, {});
  spent_[0].assign(pool_.size(), 0);
  Branch(0, 0);
}

// The least seconds of an assignment that continues path_ with `arc`. Fills spent_ for the stage
// after it.
double Search::BoundOf(const StageArc& arc, int stage) {
  double bound = std::max(arc.bound, to_end_[stage + 1][arc.end]);
  std::vector<double>& spent = spent_[stage + 1];
  spent.resize(pool_.size());
  for (int chain = 0; chain < pool_.size(); ++chain) {
    spent[chain] = spent_[stage][chain] + arc.Seconds(pool_.counts(chain, stage));
    bound = std::max(bound, spent[chain] + pool_.ToEnd(chain, stage + 1, arc.end));
  }
  steps_ += pool_.size();
  return bound;
}

void Search::Branch(int stage, int layer) {
  if (stage == problem_.stages()) {
    Leaf();
    return;
  }
  std::vector<std::pair<double, const StageArc*>> children;
  for (const StageArc& arc : arcs_->From(stage, layer)) {
    const double bound = BoundOf(arc, stage);
    if (bound < Target()) children.emplace_back(bound, &arc);
  }
  std::stable_sort(children.begin(), children.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [bound, arc] : children) Visit(*arc, stage, bound);
}

void Search::Visit(const StageArc& arc, int stage, double bound) {
  if (bound >= Target()) return;
  if (out_of_budget()) {
    unsearched_ = std::min(unsearched_, bound);
    return;
  }
  // Chains found since may say more.
  if (BoundOf(arc, stage) >= Target()) return;
  path_.push_back(arc);
  if (RankFits(stage)) Branch(stage + 1, arc.end);
  path_.pop_back();
}

// Whether the stages chosen so far leave their rank within memory; `stage` is the last of them.
bool Search::RankFits(int stage) {
  const Placement& placement = problem_.timetable->placement;
  if (!problem_.limits_memory() || placement.chunks() == 1) return true;  // its arcs fit by themselves
  const int rank = placement.rank(stage);
  std::vector<RangeCost> chunks;
  for (int held : feasible_.in_flight().stages(rank)) {
    if (held > stage) break;
    const StageArc& arc = path_[held];
    chunks.push_back(problem_.Price(held, arc.first, arc.end, arc.policy));
  }
  const InFlight& in_flight = feasible_.in_flight();
  steps_ += static_cast<int64_t>(in_flight.moments(rank).size() * chunks.size());
  return in_flight.PeakBytes(rank, chunks) <= problem_.MemoryOf(rank);
}

void Search::Leaf() {
  const StageAssignment assignment = PathAssignment();  // fits: each rank was checked
  const std::vector<RangeCost> stages = PriceStages(problem_, assignment);
  const StepCosts costs = ToStepCosts(problem_, stages);
  Consider(assignment, costs);
  if (pool_.size() >= kMaxChains) return;
  steps_ += model_.action_count();
  AddChain(model_.CriticalChain(costs));
  const int chain = pool_.size() - 1;
  for (size_t stage = 0; stage < path_.size(); ++stage) {
    const double before = stage == 0 ? 0 : spent_[stage][chain];
    spent_[stage].resize(pool_.size());
    spent_[stage][chain] = before;
    spent_[stage + 1].resize(pool_.size());
    spent_[stage + 1][chain] =
        before + path_[stage].Seconds(pool_.counts(chain, static_cast<int>(stage)));
  }
}

absl::StatusOr<PartitionAnswer> Search::Answer() const {
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
  answer.lower_bound = complete
                           ? std::min(best_.seconds, options_.cutoff) / (1 + options_.gap)
                           : std::min(best_.seconds, std::max(root_bound_, unsearched_));
  answer.optimal = complete && options_.gap == 0 && best_.seconds <= options_.cutoff;
  answer.steps = steps_;
  return answer;
}

}  // namespace

absl::StatusOr<PartitionAnswer> FindExactPartition(const PartitionProblem& problem,
                                                   const SearchOptions& options) {
  if (absl::Status status = ValidateProblem(problem); !status.ok()) return status;
  absl::StatusOr<StepModel> model = StepModel::Compile(*problem.timetable);
  if (!model.ok()) return model.status();
  return Search(problem, options, *std::move(model)).Run();
}

}  // namespace sluice
