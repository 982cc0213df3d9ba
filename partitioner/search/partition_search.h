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
#include "partitioner/bounds/layer_choices.h"
#include "partitioner/bounds/step_model.h"
#include "partitioner/cuts/minimax.h"
#include "partitioner/memory/feasible.h"
#include "partitioner/partition_problem.h"
#include "partitioner/search/local_search.h"
#include "partitioner/search/partition_answer.h"
#include "partitioner/search/search_limits.h"
#include "partitioner/search/search_options.h"
#include "partitioner/step_costs.h"

namespace sluice {

class NeighbourColumns;
class RankColumns;

// FindExactPartition() in two steps, for callers that try many timetables: first what is
// quick to find, for all of them; then, with the best of these to beat, the search.
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
  double Target() const { return limits_.Target(best_.seconds); }

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
  bool RankFits(const std::vector<LayerChoice>& path);
  std::optional<ChainCounts> Leaf(const std::vector<LayerChoice>& path);

  absl::StatusOr<PartitionAnswer> Answer() const;

  const PartitionProblem problem_;
  SearchLimits limits_;
  const Feasible feasible_;
  StepModel model_;
  TimedAssignment best_{{}, kInfinity};
  std::optional<LayerChoices> choices_;
  ChainPool<LayerChoice> pool_;
  bool seeded_ = false;
  double root_bound_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_SEARCH_PARTITION_SEARCH_H_
