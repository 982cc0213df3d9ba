#ifndef SLUICE_SCHEDULES_STAGE_DEAL_H_
#define SLUICE_SCHEDULES_STAGE_DEAL_H_

#include <vector>

#include "absl/status/statusor.h"
#include "schedules/timetable.h"

namespace sluice {

// Which rank of a pipeline has which micro-batch of a stage. Usually one rank has all of them.
// Where a stage is replicated (PipeDream, Narayanan et al. 2019, section 3.2), r ranks with equal
// weights hold it, and groups of consecutive micro-batches are dealt to them in turn: group g to
// replica g mod r. Round robin, since the stages on both sides take micro-batches in order: in
// contiguous blocks of a whole step one replica would work while the others wait.
//
// Ranks are numbered stage by stage: replica k of stage s is rank r_0 + ... + r_(s-1) + k.
class StageDeal {
 public:
  StageDeal() = default;
  // Nothing is dealt: the ranks of `placement`.
  explicit StageDeal(const Placement& placement);
  // `replicas` of each stage, at least 1; `group`: micro-batches that a replica gets in a row.
  StageDeal(std::vector<int> replicas, int group);

  int ranks() const { return ranks_; }
  int stages() const { return static_cast<int>(first_rank_.size()); }
  int replicas(int stage) const { return replicas_[static_cast<size_t>(stage)]; }
  int first_rank(int stage) const { return first_rank_[static_cast<size_t>(stage)]; }
  int rank(int stage, int micro_batch) const {
    return first_rank(stage) + micro_batch / group_ % replicas(stage);
  }
  // The stages of `rank`, ascending; one, where any stage is replicated.
  std::vector<int> StagesOf(int rank) const;
  // Which replica of its stages `rank` is.
  int replica(int rank) const { return rank - first_rank(StagesOf(rank).front()); }
  // Micro-batches after which every replica of the stage has had one more group.
  int round(int stage) const { return group_ * replicas(stage); }

 private:
  int ranks_ = 0;
  int group_ = 1;
  std::vector<int> replicas_;    // [stage]
  std::vector<int> first_rank_;  // [stage]
};

// Row by row, in the order of the table, what each rank gets of all that takes time. The halves of
// an overlapped pair, which may be of different ranks, follow one another.
std::vector<std::vector<Action>> DealRows(const Timetable& table, const StageDeal& deal);

// A timetable of as many stages as `replicas` has entries, each a row of `wide`, which is of one
// rank more for every further replica: stage s has the row of rank r_0 + ... + r_(s-1). So a stage
// with r replicas, each of which takes r times as long, keeps as many micro-batches in flight as r
// stages do, no fewer than keep all replicas busy. It is sound if `wide` is, since what one stage
// of it needs of a neighbour, stages further away need too. InvalidArgument where `wide` has
// another number of ranks, several stages a rank, several copies of the model, or no flush.
absl::StatusOr<Timetable> NarrowTimetable(const Timetable& wide, const std::vector<int>& replicas);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_STAGE_DEAL_H_
