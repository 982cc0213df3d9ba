// The depth-first search, where rounds of bounds leave something open.
#include <algorithm>
#include <utility>
#include <vector>

#include "partitioner/search/partition_search.h"

namespace sluice {
namespace {

constexpr int kMaxChains = 600;

}  // namespace

void PartitionSearch::Descend() {
  to_end_ = arcs_->BoundsToEnd();
  path_.clear();
  spent_.assign(problem_.stages() + 1, {});
  spent_[0].assign(pool_.size(), 0);
  Branch(0, 0);
}

// The least seconds of an assignment that continues path_ with `arc`. Fills spent_ for the stage
// after it.
double PartitionSearch::BoundOf(const StageArc& arc, int stage) {
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

void PartitionSearch::Branch(int stage, int layer) {
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

void PartitionSearch::Visit(const StageArc& arc, int stage, double bound) {
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
bool PartitionSearch::RankFits(int stage) {
  const Placement& placement = problem_.timetable->placement;
  if (!problem_.machines.limits_memory() || placement.chunks() == 1)
    return true;  // its arcs fit by themselves
  const int rank = placement.rank(stage);
  std::vector<RangeCost> chunks;
  for (int held : feasible_.in_flight().stages(rank)) {
    if (held > stage) break;
    const StageArc& arc = path_[held];
    chunks.push_back(problem_.Price(held, arc.first, arc.end, arc.policy));
  }
  const InFlight& in_flight = feasible_.in_flight();
  steps_ += static_cast<int64_t>(in_flight.moments(rank).size() * chunks.size());
  return in_flight.PeakBytes(rank, chunks) <= problem_.machines.MemoryOf(rank);
}

void PartitionSearch::Leaf() {
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

}  // namespace sluice
