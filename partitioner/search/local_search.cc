// Moves that known chains of actions allow, tried by simulation; what a simulation shows to be no
// better adds its critical chain to those known, so that its like are not tried again.
#include "partitioner/search/local_search.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "partitioner/search/chain_descent.h"
#include "partitioner/search/partition_answer.h"

namespace sluice {
namespace {

// How much shorter a step the moves aim at, relatively: the more, the more chains they shorten at
// once.
constexpr double kMostAim = 0.02;
constexpr double kLeastAim = 0.0005;
constexpr int kMostFailures = 12;  // in a row
constexpr int kMostChains = 96;

}  // namespace

TimedAssignment Improve(const PartitionProblem& problem, const Feasible& feasible,
                        TimedAssignment start, int64_t budget, StepModel* model, int64_t* steps,
                        const std::function<bool()>& stop) {
  ChainDescent descent(problem, feasible);
  const auto costs_of = [&](const StageAssignment& assignment) {
    return ToStepCosts(problem, PriceStages(problem, assignment));
  };
  descent.Learn(model->CriticalChain(costs_of(start.assignment)));
  *steps += 2 * model->action_count();
  int failures = 0;
  for (double aim = kMostAim; aim >= kLeastAim && failures < kMostFailures;) {
    if (*steps >= budget || descent.known() >= kMostChains || (stop && stop())) break;
    const ChainDescent::Found found =
        descent.Run(start.assignment, start.seconds * (1 - aim), budget, steps);
    if (found.seconds >= start.seconds * (1 - kProofTolerance)) {
      aim /= 2;
      continue;
    }
    const StepCosts costs = costs_of(found.assignment);
    const double seconds = model->Makespan(costs);
    descent.Learn(model->CriticalChain(costs));
    *steps += 3 * model->action_count();
    ++failures;
    if (seconds >= start.seconds * (1 - kProofTolerance)) continue;
    start = {found.assignment, seconds};
    failures = 0;
  }
  return start;
}

}  // namespace sluice
