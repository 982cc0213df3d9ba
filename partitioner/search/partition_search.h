#ifndef SLUICE_PARTITIONER_SEARCH_PARTITION_SEARCH_H_
#define SLUICE_PARTITIONER_SEARCH_PARTITION_SEARCH_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/bounds/chain_counts.h"
#include "partitioner/bounds/chain_pool.h"
#include "partitioner/bounds/stage_arcs.h"
#include "partitioner/bounds/step_model.h"
#include "partitioner/cuts/minimax.h"
#include "partitioner/memory/feasible.h"
#include "partitioner/partition_problem.h"
#include "partitioner/search/local_search.h"
#include "partitioner/search/partition_answer.h"
#include "partitioner/search/search_options.h"
#include "partitioner/step_costs.h"

namespace sluice {

class NeighbourColumns;
class RankColumns;

// FindExactPartition() in two steps, for who has many timetables to try: first what is good for
// sure and quick to find, for all of them; then, with the best of these to beat, the search.
// See partition_search.cc for how. What the problem points to stays the caller's.
class PartitionSearch {
 public:
  // InvalidArgument as ValidateProblem.
  static absl::StatusOr<std::unique_ptr<PartitionSearch>> Create(const PartitionProblem& problem);

  // Seconds of the best of a few assignments; infinite where none of them fits.
  double Seed();
  // As FindExactPartition.
  absl::StatusOr<PartitionAnswer> Run(const SearchOptions& options);

 private:
  PartitionSearch(const PartitionProblem& problem, StepModel model)
      : problem_(problem), feasible_(problem), model_(std::move(model)) {}

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  // What an assignment must stay below to be of interest.
  double Target() const {
    return std::min(best_.seconds, options_.cutoff) / (1 + options_.gap) * (1 - kProofTolerance);
  }
  bool stopped() const { return options_.stop && options_.stop(); }
  bool out_of_budget() const { return steps_ >= options_.budget || stopped(); }

  void Try(const StageAssignment& assignment);
  void ImproveBest();
  std::optional<MinimaxAnswer> FixedAnswer() const;
  void SeedLeastMemory();
  double BoundRoot();
  StepCosts EvenCosts() const;
  std::vector<std::vector<ChainCounts>> Probe();
  void BoundRanks(std::vector<std::vector<ChainCounts>> chains);
  void BoundNeighbours(const RankColumns& columns);
  void AddNeighbourChains(const StepCosts& costs, NeighbourColumns* neighbours);
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

  const PartitionProblem problem_;
  SearchOptions options_;
  const Feasible feasible_;
  StepModel model_;
  TimedAssignment best_{{}, kInfinity};
  std::optional<StageArcs> arcs_;
  ChainPool pool_;
  bool seeded_ = false;
  int64_t steps_ = 0;
  double root_bound_ = 0;
  // Depth-first search: the arcs chosen, the seconds of each chain over them, and the least bound
  // not searched.
  std::vector<StageArc> path_;
  std::vector<std::vector<double>> spent_;  // [stage][chain]
  std::vector<std::vector<double>> to_end_;
  double unsearched_ = kInfinity;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_SEARCH_PARTITION_SEARCH_H_
