#include "partitioner/local_search.h"

#include <utility>
#include <vector>

namespace sluice {
namespace {

// The assignments one step away from `from` at boundary or stage `at`: a layer moved either way
// across the boundary after it (both stages then take their fastest policies or keep theirs), and
// another policy.
std::vector<StageAssignment> Neighbours(const PartitionProblem& problem, const Feasible& feasible,
                                        const StageAssignment& from, size_t at) {
  std::vector<StageAssignment> neighbours;
  for (int step : {-1, 1}) {
    if (problem.fixed || at + 1 == from.partition.size()) break;
    StageAssignment moved = from;
    moved.partition[at].last += step;
    moved.partition[at + 1].first += step;
    if (moved.partition[at].size() < 1 || moved.partition[at + 1].size() < 1) continue;
    neighbours.push_back(moved);
    bool possible = true;
    for (size_t s : {at, at + 1}) {
      const LayerRange& range = moved.partition[s];
      const std::vector<Recompute> policies =
          feasible.Policies(static_cast<int>(s), range.first, range.last + 1);
      possible = possible && !policies.empty();
      if (possible) moved.recompute[s] = policies.front();
    }
    if (possible && moved.recompute != from.recompute) neighbours.push_back(std::move(moved));
  }
  for (Recompute policy : problem.policies) {
    if (policy == from.recompute[at]) continue;
    neighbours.push_back(from);
    neighbours.back().recompute[at] = policy;
  }
  return neighbours;
}

}  // namespace

TimedAssignment Improve(const PartitionProblem& problem, const Feasible& feasible,
                        TimedAssignment start, int64_t budget, StepModel* model, int64_t* steps) {
  for (bool better = true; better;) {
    better = false;
    for (size_t at = 0; at < start.assignment.partition.size(); ++at) {
      for (StageAssignment& candidate : Neighbours(problem, feasible, start.assignment, at)) {
        if (*steps >= budget) return start;
        const std::vector<RangeCost> stages = PriceStages(problem, candidate);
        *steps += feasible.check_steps();
        if (!feasible.Fits(stages)) continue;
        const double seconds = model->Makespan(ToStepCosts(problem, stages));
        *steps += model->action_count();
        if (seconds >= start.seconds) continue;
        start = {std::move(candidate), seconds};
        better = true;
        break;
      }
    }
  }
  return start;
}

}  // namespace sluice
