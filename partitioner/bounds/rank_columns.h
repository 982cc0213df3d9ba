#ifndef SLUICE_PARTITIONER_BOUNDS_RANK_COLUMNS_H_
#define SLUICE_PARTITIONER_BOUNDS_RANK_COLUMNS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "partitioner/bounds/chain_counts.h"
#include "partitioner/bounds/layer_choices.h"
#include "partitioner/memory/feasible.h"
#include "partitioner/partition_problem.h"

namespace sluice {

// What one rank could hold: for each of its stages a number of layers and a policy, wherever these
// layers lie. Its costs and bytes are the least of any such layers, so that whatever is proved of
// columns holds for the assignments that they stand for.
struct RankColumn {
  std::vector<int32_t> lengths;     // [chunk] layers
  std::vector<Recompute> policies;  // [chunk]
  std::vector<LayerChoice> costs;   // [chunk] only the seconds count
  int layers = 0;                   // sum of `lengths`
  double work = 0;                  // most seconds of work, recomputation aside, that it takes over
  double own = 0;                   // seconds in the chain that runs through this rank
};

// A bound that sees ranks as wholes, where the choices see stages: how the layers share out over the
// ranks is a matter of whole layers (200 over 64 ranks: some rank has four), and of what fits into
// a rank's memory together.
//   Let r be the rank that spends most in its own chain. A step takes as long as that chain: what r
//   spends, and what the chain spends on other ranks, none of which spends more than r in its own.
//   So the least, over r and its column, of that column's seconds plus the least that the others
//   can spend in r's chain while they take over all the work that is left, bounds the step. The
//   latter is a multiple-choice knapsack, of which the linear relaxation is taken (Sinha and
//   Zoltners, Operations Research 27(3), 1979: greedy over the convex hulls).
class RankColumns {
 public:
  // `chains` are sets of a chain for each rank; the first set says what a rank's own chain is, the
  // others may only raise the bound. Not usable (empty) where a rank has too many columns.
  RankColumns(const PartitionProblem& problem, const Feasible& feasible,
              const LayerChoices& choices, std::vector<std::vector<ChainCounts>> chains);

  bool usable() const { return !columns_.empty(); }
  // No assignment over these choices makes a shorter step. Infinite where no columns fit; 0 where
  // `budget` steps were not enough to say.
  double LeastSeconds(int64_t budget) const;
  // Assignments made of columns, the `count` most promising: the least limits on what a rank may
  // spend in its own chain that can be met, and under each the least seconds elsewhere. They need
  // not fit, since layers differ.
  std::vector<StageAssignment> Suggest(int count) const;

  // Of `rank`, by `own`.
  const std::vector<RankColumn>& columns(int rank) const { return columns_[rank]; }
  int ranks() const { return static_cast<int>(columns_.size()); }
  double SecondsIn(const ChainCounts& chain, int rank, const RankColumn& column) const;
  // The least that the ranks but first..last spend in `chain` while they take over `work`, none of
  // them more than `most_own` in its own.
  double LeastBeside(int first, int last, const ChainCounts& chain, double most_own,
                     double work) const;
  // Seconds of all layers' work.
  double work() const { return work_before_.back(); }
  // The assignment of one column to each rank, which take over all layers.
  StageAssignment Assign(const std::vector<const RankColumn*>& taken) const;

  // Elementary steps, for search budgets.
  int64_t steps() const { return steps_; }

 private:
  // Work against seconds: a point of a rank's convex hull, or the way from one to the next.
  struct Point {
    double work = 0, seconds = 0;
  };
  struct ColumnClass;

  std::vector<ColumnClass> ClassesOf(const LayerChoices& choices, int stage) const;
  bool ListColumns(const LayerChoices& choices, int rank);
  std::vector<Point> Hull(int rank, const ChainCounts& chain, double most_own) const;
  double LeastLimit() const;
  std::optional<StageAssignment> Fill(double most_own) const;

  const PartitionProblem& problem_;
  const Feasible& feasible_;
  std::vector<std::vector<ChainCounts>> chains_;  // [set][rank]
  std::vector<std::vector<RankColumn>> columns_;  // [rank], by `own`
  std::vector<double> work_before_;               // [layer] seconds of the layers before it
  mutable int64_t steps_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_RANK_COLUMNS_H_
