#ifndef SLUICE_SCHEDULES_STAGE_DEAL_H_
#define SLUICE_SCHEDULES_STAGE_DEAL_H_

#include <vector>

#include "absl/status/statusor.h"
#include "schedules/timetable.h"

namespace sluice {

// Which rank of a pipeline runs which micro-batch of a stage. Usually one rank runs all of them.
// Where several ranks share a stage (PipeDream's replicated stages, Narayanan et al. 2019, section
// 3.2), all of its r members hold equal weights, and groups of consecutive micro-batches are dealt to
// them in turn: group g to member g mod r. Micro-batches arrive in order from the previous stage: if
// each member got one contiguous block of the step, one would work while the others wait.
//
// Ranks are numbered stage by stage: member k of stage s is rank r_0 + ... + r_(s-1) + k.
class StageDeal {
 public:
  StageDeal() = default;
  // One rank per stage, that of `placement`.
  explicit StageDeal(const Placement& placement);
  // `members`: [stage] how many ranks hold it, at least 1. `group`: how many consecutive
  // micro-batches a member gets at a time.
  StageDeal(std::vector<int> members, int group);

  int ranks() const { return ranks_; }
  int stages() const { return static_cast<int>(first_rank_.size()); }
  int members(int stage) const { return members_[static_cast<size_t>(stage)]; }
  int first_rank(int stage) const { return first_rank_[static_cast<size_t>(stage)]; }
  int rank(int stage, int micro_batch) const {
    return first_rank(stage) + micro_batch / group_ % members(stage);
  }
  // The stages of `rank`, ascending. Where any stage has several members, there is one.
  std::vector<int> StagesOf(int rank) const;
  // Which member of its stages `rank` is.
  int member(int rank) const { return rank - first_rank(StagesOf(rank).front()); }
  // Micro-batches after which every member of the stage has had one more group.
  int round(int stage) const { return group_ * members(stage); }

 private:
  int ranks_ = 0;
  int group_ = 1;
  std::vector<int> members_;     // [stage]
  std::vector<int> first_rank_;  // [stage]
};

// [rank] the actions that take time, in the order of the table. The halves of an overlapped pair,
// which may belong to different ranks, become two actions one after the other.
std::vector<std::vector<Action>> DealRows(const Timetable& table, const StageDeal& deal);

// A timetable with one stage per entry of `members`, made from `wide`, which has one rank per
// member: stage s gets the row of rank r_0 + ... + r_(s-1). So a stage with r members, each of
// which takes r times as long, keeps as many micro-batches in flight as r stages do, which is enough
// to keep all members busy. It is sound if `wide` is sound, since whatever a stage needs from its
// neighbour, stages further away need too. InvalidArgument where `wide` has another number of ranks,
// several stages per rank, several copies of the model, or no flush.
absl::StatusOr<Timetable> NarrowTimetable(const Timetable& wide, const std::vector<int>& members);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_STAGE_DEAL_H_
