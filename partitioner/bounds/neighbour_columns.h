#ifndef SLUICE_PARTITIONER_BOUNDS_NEIGHBOUR_COLUMNS_H_
#define SLUICE_PARTITIONER_BOUNDS_NEIGHBOUR_COLUMNS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "partitioner/bounds/rank_columns.h"

namespace sluice {

// A bound that sees each rank together with the next one. Where a timetable is tight (the V
// schedules), the chains that decide go to and fro between two ranks, and neither alone says how
// long a step takes.
//   For a chain through ranks r and r + 1, what these two spend in it with their columns, and the
// least that the others do, bounds the step. The columns of all ranks, which together hold every
// layer, are chosen by dynamic programming over the ranks and the layers used up, such that the
// largest of these bounds is least: exact for the columns and the chains given.
class NeighbourColumns {
 public:
  // `columns` must outlive this. Not usable where a rank has too many columns or none, or there is
  // but one rank.
  explicit NeighbourColumns(const RankColumns& columns, int layers);

  bool usable() const { return usable_; }
  // `chains`[r]: any chain; it says most when it runs through ranks r and r + 1.
  void Add(const std::vector<ChainCounts>& chains);
  // No assignment makes a shorter step; infinite where the columns cannot hold all layers.
  double LeastSeconds() const;
  // Of the assignments whose pairs' bounds are all at most `limit`, one whose bounds are low
  // altogether. It need not fit, since layers differ.
  std::optional<StageAssignment> Assignment(double limit) const;

  // Elementary steps so far, for search budgets.
  int64_t steps() const { return steps_; }

 private:
  // Values of the columns of one rank: [column][layers used up to here].
  struct Layer;

  size_t count(int rank) const { return kept_[rank].size(); }
  template <typename Join>
  std::vector<Layer> Sweep(const Join& join) const;

  const RankColumns& columns_;
  const int layers_;
  bool usable_ = true;
  std::vector<std::vector<const RankColumn*>> kept_;  // [rank] those that no other beats
  std::vector<std::vector<double>> pairs_;  // [rank][column * count(rank + 1) + next one's]
  mutable int64_t steps_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_NEIGHBOUR_COLUMNS_H_
