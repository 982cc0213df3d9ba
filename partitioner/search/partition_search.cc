// Branch and bound, with bounds made from chains of actions.
//
// A step lasts as long as the longest chain of actions that wait for one another, so any chain P of
// the timetable is a lower bound, and what P takes is a sum over stages: of the counts of F, I and
// W in P times what these cost in the stage. Over all assignments that is a shortest path through
// "stage, cut" (chain_pool.h). Hence:
//   1. Seeds: assignments that are good for sure (bottleneck, even, least memory).
//   2. The root: each rank's own chain bounds the choices, and the ranks as wholes
//      (rank_columns.h), one by one and each with the next (neighbour_columns.h), the step; their
//      columns suggest more assignments, and single layers are moved to improve the best
//      (partition_root.cc).
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
#include "partitioner/search/branch_and_bound.h"

namespace sluice {
namespace {

// Chains that a search collects.
constexpr int kMaxChains = 600;
constexpr int kMaxRounds = 400;
constexpr int kMaxStalledRounds = 3;

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
