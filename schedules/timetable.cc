#include "schedules/timetable.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

Placement Placement::Looped(int ranks, int chunks) {
  Placement placement;
  placement.ranks_ = ranks;
  placement.chunks_ = chunks;
  for (int stage = 0; stage < ranks * chunks; ++stage) {
    placement.rank_of_stage_.push_back(stage % ranks);
  }
  return placement;
}

Placement Placement::V(int ranks, int chunks) {
  Placement placement = Looped(ranks, chunks);
  for (int stage = 0; stage < placement.stages(); ++stage) {
    const bool upwards = (stage / ranks) % 2 == 1;
    if (upwards) placement.rank_of_stage_[stage] = ranks - 1 - stage % ranks;
  }
  return placement;
}

Placement Placement::Bidirectional(int ranks) {
  Placement placement = V(ranks, 2);
  placement.copies_ = 2;
  return placement;
}

Placement Placement::OfFirstRanks(std::vector<int> first_ranks, int ranks) {
  Placement placement;
  placement.ranks_ = ranks;
  placement.chunks_ = 1;
  placement.rank_of_stage_ = std::move(first_ranks);
  return placement;
}

absl::StatusOr<Placement> Placement::FromRanks(std::vector<int> rank_of_stage) {
  if (rank_of_stage.empty()) return absl::InvalidArgumentError("a placement needs a stage");
  const auto [least, most] = std::minmax_element(rank_of_stage.begin(), rank_of_stage.end());
  if (*least < 0 || *most >= static_cast<int>(rank_of_stage.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a placement of ", rank_of_stage.size(), " stages names rank ", *least < 0 ? *least : *most,
        "; every rank from 0 to the highest needs a stage"));
  }
  std::vector<int> stages_on(*most + 1, 0);
  for (int rank : rank_of_stage) ++stages_on[rank];
  const auto empty = std::find(stages_on.begin(), stages_on.end(), 0);
  if (empty != stages_on.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", empty - stages_on.begin(), " has no stage; ranks go up to ", *most));
  }
  Placement placement;
  placement.ranks_ = static_cast<int>(stages_on.size());
  placement.chunks_ = *std::max_element(stages_on.begin(), stages_on.end());
  placement.rank_of_stage_ = std::move(rank_of_stage);
  return placement;
}

std::vector<int> Placement::StagesOf(int rank) const {
  std::vector<int> held;
  for (int stage = 0; stage < stages(); ++stage) {
    if (rank_of_stage_[stage] == rank) held.push_back(stage);
  }
  return held;
}

int Timetable::MicroBatchesOf(int stage) const {
  // The first micro-batch of copy k is the least b with b * copies >= k * micro_batches.
  const int64_t copies = placement.copies();
  const int64_t k = placement.copy(stage);
  const auto first = [&](int64_t copy) { return (copy * micro_batches + copies - 1) / copies; };
  return static_cast<int>(first(k + 1) - first(k));
}

bool Timetable::lowered() const {
  for (const auto& row : rows) {
    for (const Action& action : row) {
      if (IsCommunication(action.op)) return true;
    }
  }
  return false;
}

bool Timetable::splits_backward() const {
  for (const auto& row : rows) {
    for (const Action& action : row) {
      if (action.op == Op::kWeightGrad) return true;
    }
  }
  return false;
}

int64_t Timetable::action_count() const {
  int64_t count = 0;
  for (const auto& row : rows) count += static_cast<int64_t>(row.size());
  return count;
}

}  // namespace sluice
