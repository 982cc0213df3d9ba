#ifndef SLUICE_PARTITIONER_SEARCH_GRAPH_STEP_SEARCH_H_
#define SLUICE_PARTITIONER_SEARCH_GRAPH_STEP_SEARCH_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/bounds/chain_mean.h"
#include "partitioner/bounds/chain_pool.h"
#include "partitioner/bounds/graph_choices.h"
#include "partitioner/bounds/graph_lengths.h"
#include "partitioner/bounds/step_model.h"
#include "partitioner/cuts/graph_work.h"
#include "partitioner/graph_problem.h"
#include "partitioner/search/partition_answer.h"
#include "partitioner/search/search_limits.h"
#include "partitioner/search/search_options.h"
#include "partitioner/step_costs.h"

namespace sluice {

struct GraphStepAnswer {
  GraphCuts cuts;  // empty where nothing was found
  double seconds = std::numeric_limits<double>::infinity();
  double lower_bound = 0;  // no pipeline that fits takes less; at most the cutoff
  bool complete = false;   // nothing that fits takes less than `seconds` and the cutoff
  int64_t steps = 0;
};

// The cuts of a graph with the shortest step, for one timetable. See the .cc for how.
class GraphStepSearch {
 public:
  // InvalidArgument as StepModel::Compile. `problem` must outlive it.
  static absl::StatusOr<std::unique_ptr<GraphStepSearch>> Create(const GraphStepProblem& problem);

  GraphStepAnswer Run(const SearchOptions& options);

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  using ShortestWay = std::function<double(const ChainMean&, GraphCuts*)>;

  GraphStepSearch(const GraphStepProblem& problem, StepModel model)
      : problem_(problem), model_(std::move(model)) {}

  double Target() const { return limits_.Target(answer_.seconds); }

  void Probe();
  void AddChain(ChainMean chain);
  ChainMean Mean() const;
  // Looks for the mean of chains that bounds best.
  void Rounds(const ShortestWay& shortest, int64_t pass_steps, int64_t budget);
  void Reweigh(const StepCosts& costs, double least, double stride);
  double Consider(const GraphCuts& cuts, const StepCosts& costs);
  bool DropCuts(GraphLengths* lengths);
  bool BoundChoices();

  void Descend();
  bool RankFits(const std::vector<GraphChoice>& path) const;
  std::optional<ChainMean> Leaf(const std::vector<GraphChoice>& path);
  void Finish(double lower_bound);

  const GraphStepProblem& problem_;
  StepModel model_;
  SearchLimits limits_;
  GraphStepAnswer answer_;
  double bound_ = 0;  // of all pipelines
  ChainMean best_mean_;
  std::vector<ChainMean> chains_;
  std::vector<double> weights_;  // [chain] adding up to 1
  GraphChoices choices_;
  ChainPool<GraphChoice> proofs_;  // the chains that bound the depth-first search
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_SEARCH_GRAPH_STEP_SEARCH_H_
