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
  // No pipeline that fits takes less, whatever its cuts, listed or not; at most the cutoff.
  double lower_bound = 0;
  bool complete = false;  // nothing that fits takes less than `seconds` and the cutoff
  int64_t steps = 0;
};

// The cuts of a graph with the shortest step, for one timetable, of those that are listed. See the
// .cc for how.
class GraphStepSearch {
 public:
  // InvalidArgument as StepModel::Compile. `problem` must outlive it.
  static absl::StatusOr<std::unique_ptr<GraphStepSearch>> Create(const GraphStepProblem& problem);

  GraphStepAnswer Run(const SearchOptions& options);

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // The least seconds that a mean takes over some pipelines, and a pipeline where it does: its
  // costs, and its cuts where they are cuts of the graph, which `cuts` says by not being empty.
  using ShortestWay = std::function<double(const ChainMean&, StepCosts* costs, GraphCuts* cuts)>;
  // A mean of chains, and what it proves.
  struct Proof {
    double seconds = 0;
    ChainMean mean;
  };

  GraphStepSearch(const GraphStepProblem& problem, StepModel model)
      : problem_(problem), model_(std::move(model)) {}

  double Target() const { return limits_.Target(answer_.seconds); }

  void Probe();
  void AddChain(ChainMean chain);
  ChainMean Mean() const;
  // Looks for the mean of chains that bounds best.
  void Rounds(const ShortestWay& shortest, int64_t pass_steps, int64_t budget, Proof* best);
  void Reweigh(const StepCosts& costs, double least, double stride, double bound);
  void BoundAnyCuts();
  double Consider(const GraphCuts& cuts, const StepCosts& costs);
  bool DropCuts(GraphLengths* lengths);
  bool BoundChoices();

  void Descend();
  bool RankFits(const std::vector<GraphChoice>& path);
  std::optional<ChainMean> Leaf(const std::vector<GraphChoice>& path);
  void Finish(double lower_bound);

  const GraphStepProblem& problem_;
  StepModel model_;
  SearchLimits limits_;
  GraphStepAnswer answer_;
  Proof best_;  // of all pipelines with the cuts listed
  // Of pipelines with any cuts, where not all are listed.
  double any_cuts_bound_ = 0;
  std::vector<ChainMean> chains_;
  std::vector<double> weights_;  // [chain] adding up to 1
  GraphChoices choices_;
  ChainPool<GraphChoice> proofs_;  // the chains that bound the depth-first search
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_SEARCH_GRAPH_STEP_SEARCH_H_
