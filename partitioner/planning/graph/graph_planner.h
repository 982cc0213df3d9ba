#ifndef SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_PLANNER_H_
#define SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_PLANNER_H_

#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "partitioner/candidate.h"
#include "partitioner/cuts/graph_work.h"
#include "partitioner/graph_problem.h"
#include "partitioner/planning/graph/graph_contestant.h"
#include "partitioner/planning/graph/graph_seeds.h"
#include "partitioner/planning/graph/graph_step_request.h"
#include "partitioner/planning/plan/candidates.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/question/plan_request.h"
#include "partitioner/planning/race/race.h"

namespace sluice {

// Tries every timetable that a request allows for the stages of a graph, with one device for each:
// first along an order or two of the nodes, which gives something to beat, and then over all cuts
// that are listed.
class GraphPlanner {
 public:
  // Plans that take `cutoff` seconds or longer are of no interest. With `seeds` these are to be
  // beaten, and no others are looked for. All must outlive it.
  GraphPlanner(const GraphStepRequest& request, const GraphWork& work,
               double cutoff = std::numeric_limits<double>::infinity(),
               const std::vector<GraphSeed>* seeds = nullptr);

  // Nothing where no plan was found below the cutoff. Errors as FindGraphStepPlan. To be called
  // once, before the next two.
  absl::StatusOr<std::optional<Plan>> Run();

  // No plan that fits takes less, whatever its cuts, listed or not.
  double lower_bound() const { return lower_bound_; }
  // What lost, the closest to the best one first, and then what could not be had.
  std::vector<RejectedPlan> Rejected() const;

 private:
  absl::Status Enter(const PlanRequest& along);
  double EvenSeconds() const;
  GraphStepProblem ProblemOf(const Candidate& candidate) const;
  absl::Status TakeSeeds();
  absl::Status Search();
  absl::Status WhyNothing(const PlanRequest& along) const;
  std::string WhyNot(const GraphContestant& contestant) const;
  absl::StatusOr<std::optional<Plan>> Finish() const;

  const GraphStepRequest& request_;
  const double cutoff_;
  const GraphWork& work_;
  const std::vector<GraphSeed>* seeds_;
  std::vector<Candidate> candidates_;
  std::deque<GraphContestant> contestants_;
  std::vector<GraphContestant*> order_;  // in which they race
  std::vector<RejectedPlan> refused_;
  Race race_;
  bool all_entered_ = false;  // the race has every timetable that is asked for and can be had
  double lower_bound_;        // EvenSeconds() until more is proved
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_GRAPH_GRAPH_PLANNER_H_
