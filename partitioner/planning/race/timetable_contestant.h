#ifndef SLUICE_PARTITIONER_PLANNING_RACE_TIMETABLE_CONTESTANT_H_
#define SLUICE_PARTITIONER_PLANNING_RACE_TIMETABLE_CONTESTANT_H_

#include <memory>
#include <string>

#include "partitioner/candidate.h"
#include "partitioner/planning/plan/candidates.h"
#include "partitioner/planning/question/plan_request.h"
#include "partitioner/planning/race/race.h"
#include "partitioner/search/partition_answer.h"
#include "partitioner/search/partition_search.h"
#include "partitioner/search/search_options.h"

namespace sluice {

// One timetable of a request for a chain of layers: finds the best partition for it.
class TimetableContestant : public Contestant {
 public:
  // Both must outlive it.
  TimetableContestant(const PlanRequest& request, const Candidate& candidate);

  // Prepares the search, and returns the seconds of a quick answer: infinite where none of the few
  // tried fits, or where there is no search to make, as `result` then says.
  double Seed();
  RaceResult Search(const SearchOptions& options) override;
  // For the objective bottleneck, for which there is nothing to search.
  RaceResult FindBottleneck();

  const Candidate& candidate() const { return *candidate_; }
  bool prepared() const { return search_ != nullptr; }
  // Of what was found.
  const StageAssignment& assignment() const { return assignment_; }
  // Why it has nothing that is fast enough and fits.
  std::string WhySlower() const;

 private:
  RaceResult Take(absl::StatusOr<PartitionAnswer> answer, double cutoff, int64_t budget);

  const PlanRequest* request_;
  const Candidate* candidate_;
  std::unique_ptr<PartitionSearch> search_;
  StageAssignment assignment_;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_RACE_TIMETABLE_CONTESTANT_H_
