#include "schedules/stage_deal.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedules/counted.h"

namespace sluice {

StageDeal::StageDeal(const Placement& placement)
    : ranks_(placement.ranks()),
      members_(static_cast<size_t>(placement.stages()), 1),
      first_rank_(placement.rank_of_stage()) {}

StageDeal::StageDeal(std::vector<int> members, int group)
    : group_(group), members_(std::move(members)) {
  for (const int count : members_) {
    first_rank_.push_back(ranks_);
    ranks_ += count;
  }
}

std::vector<int> StageDeal::StagesOf(int rank) const {
  std::vector<int> stages;
  for (int stage = 0; stage < this->stages(); ++stage) {
    if (rank >= first_rank(stage) && rank < first_rank(stage) + members(stage))
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

absl::StatusOr<Timetable> NarrowTimetable(const Timetable& wide, const std::vector<int>& members) {
  const int ranks = std::accumulate(members.begin(), members.end(), 0);
  if (wide.placement.stages() != ranks || wide.placement.chunks() != 1 ||
      wide.updates != WeightUpdates::kFlush) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule '", wide.name, "' has ", Counted(wide.placement.ranks(), "rank"),
        wide.placement.chunks() > 1 ? " with several stages each" : "",
        wide.updates != WeightUpdates::kFlush ? ", and no flush at which ranks could agree" : "",
        "; stages that several ranks share need a synchronous schedule of ", Counted(ranks, "rank"),
        " with one stage per rank"));
  }
  Timetable narrow = wide;
  narrow.placement = Placement::Looped(static_cast<int>(members.size()));
  narrow.rows.clear();
  int rank = 0;
  for (size_t stage = 0; stage < members.size(); ++stage) {
    std::vector<Action>& row = narrow.rows.emplace_back(wide.rows[static_cast<size_t>(rank)]);
    for (Action& action : row) action.stage = static_cast<uint16_t>(stage);
    rank += members[stage];
  }
  return narrow;
}

}  // namespace sluice
