#include "partitioner/planning/graph/graph_contestant.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "partitioner/search/graph_step_search.h"
#include "partitioner/search/partition_answer.h"
#include "schedules/simulate/simulate.h"

namespace sluice {

void GraphContestant::Know(GraphCuts cuts) {
  const absl::StatusOr<Simulation> run =
      Simulate(*problem_.timetable, problem_.Costs(cuts), Detail::kSummary);
  if (!run.ok() || run->makespan >= result.seconds) return;
  result.outcome = RaceOutcome::kFound;
  result.seconds = run->makespan;
  cuts_ = std::move(cuts);
}

RaceResult GraphContestant::Search(const SearchOptions& options) {
  RaceResult taken = result;
  const absl::StatusOr<std::unique_ptr<GraphStepSearch>> search = GraphStepSearch::Create(problem_);
  if (!search.ok()) {
    taken.outcome = RaceOutcome::kRefused;
    taken.why = search.status();
    return taken;
  }
  SearchOptions own = options;
  // Cuts as good as the best ones are of interest: they may be the best ones.
  own.cutoff *= 1 + 2 * kProofTolerance;
  GraphStepAnswer answer = (*search)->Run(own);
  taken.cutoff = options.cutoff;
  taken.lower_bound = answer.lower_bound;
  taken.complete = answer.complete;
  taken.steps = answer.steps;
  if (answer.seconds < taken.seconds) {
    taken.outcome = RaceOutcome::kFound;
    taken.seconds = answer.seconds;
    cuts_ = std::move(answer.cuts);
  }
  if (!taken.found()) {
    taken.outcome = answer.complete ? RaceOutcome::kSlower : RaceOutcome::kStopped;
  }
  return taken;
}

bool GraphContestant::ProvedNoBetter(double seconds) const {
  return result.complete || result.lower_bound >= seconds * (1 - kProofTolerance);
}

}  // namespace sluice
