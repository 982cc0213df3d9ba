#include "schedules/stage_deal.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

StageDeal::StageDeal(const Placement& placement)
    : ranks_(placement.ranks()),
      replicas_(static_cast<size_t>(placement.stages()), 1),
      first_rank_(placement.rank_of_stage()) {}

StageDeal::StageDeal(std::vector<int> replicas, int group)
    : group_(group), replicas_(std::move(replicas)) {
  for (const int count : replicas_) {
    first_rank_.push_back(ranks_);
    ranks_ += count;
  }
}

std::vector<int> StageDeal::StagesOf(int rank) const {
  std::vector<int> stages;
  for (int stage = 0; stage < this->stages(); ++stage) {
    if (rank >= first_rank(stage) && rank < first_rank(stage) + replicas(stage))
      stages.push_back(stage);
  }
  return stages;
}

std::vector<std::vector<Action>> DealRows(const Timetable& table, const StageDeal& deal) {
  std::vector<std::vector<Action>> rows(static_cast<size_t>(deal.ranks()));
  for (const std::vector<Action>& row : table.rows) {
    for (const Action& action : row) {
      if (!TakesTime(action.op)) continue;
      const int rank = deal.rank(action.stage, action.micro_batch);
      rows[static_cast<size_t>(rank)].push_back(action);
      rows[static_cast<size_t>(rank)].back().overlaps_next = false;
    }
  }
  return rows;
}

absl::StatusOr<Timetable> NarrowTimetable(const Timetable& wide, const std::vector<int>& replicas) {
  const int ranks = std::accumulate(replicas.begin(), replicas.end(), 0);
  if (wide.placement.stages() != ranks || wide.placement.chunks() != 1 ||
      wide.updates != WeightUpdates::kFlush) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule '", wide.name, "' has ", wide.placement.ranks(), " ranks",
        wide.placement.chunks() > 1 ? " with several stages each" : "",
        wide.updates != WeightUpdates::kFlush ? ", and no flush in which replicas could agree" : "",
        "; replicated stages need a synchronous one of ", ranks, " ranks with a stage each"));
  }
  Timetable narrow = wide;
  narrow.placement = Placement::Looped(static_cast<int>(replicas.size()));
  narrow.rows.clear();
  int rank = 0;
  for (size_t stage = 0; stage < replicas.size(); ++stage) {
    std::vector<Action>& row = narrow.rows.emplace_back(wide.rows[static_cast<size_t>(rank)]);
    for (Action& action : row) action.stage = static_cast<uint16_t>(stage);
    rank += replicas[stage];
  }
  return narrow;
}

}  // namespace sluice
