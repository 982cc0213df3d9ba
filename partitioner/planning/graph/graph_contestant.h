#ifndef SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_CONTESTANT_H_
#define SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_CONTESTANT_H_

#include "partitioner/bounds/graph_lengths.h"
#include "partitioner/candidate.h"
#include "partitioner/graph_problem.h"
#include "partitioner/planning/plan/candidates.h"
#include "partitioner/planning/race/race.h"
#include "partitioner/search/search_options.h"

namespace sluice {

// One timetable for the stages of a graph: finds the best cuts for it.
class GraphContestant : public Contestant {
 public:
  // What `problem` points to, and `candidate`, must outlive it.
  GraphContestant(const Candidate& candidate, const GraphStepProblem& problem)
      : candidate_(&candidate), problem_(problem) {}

  // Takes cuts that are known, where they are better than what it has.
  void Know(GraphCuts cuts);
  RaceResult Search(const SearchOptions& options) override;

  const Candidate& candidate() const { return *candidate_; }
  const GraphStepProblem& problem() const { return problem_; }
  const GraphCuts& cuts() const { return cuts_; }  // of what was found
  // Whether it is proved that nothing is better than `seconds`.
  bool ProvedNoBetter(double seconds) const;

 private:
  const Candidate* candidate_;
  GraphStepProblem problem_;
  GraphCuts cuts_;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_CONTESTANT_H_
