#include "partitioner/planning/race/timetable_contestant.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "models/spec/units.h"
#include "partitioner/memory/feasible.h"
#include "partitioner/planning/plan/plan_builder.h"

namespace sluice {

TimetableContestant::TimetableContestant(const PlanRequest& request, const Candidate& candidate)
    : request_(&request), candidate_(&candidate) {}

double TimetableContestant::Seed() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (request_->stop && request_->stop()) {
    result.outcome = RaceOutcome::kStopped;
    result.why = absl::DeadlineExceededError("not tried in the time");
    return kInfinity;
  }
  absl::StatusOr<std::unique_ptr<PartitionSearch>> search =
      PartitionSearch::Create(ProblemOf(*request_, *candidate_, request_->partition));
  if (!search.ok()) {
    result = Take(search.status(), kInfinity, 0);
    return kInfinity;
  }
  search_ = *std::move(search);
  return search_->Seed();
}

RaceResult TimetableContestant::Search(const SearchOptions& options) {
  SearchOptions own = options;
  // An answer as good as the best one is of interest: it may be the best one.
  own.cutoff *= 1 + 2 * kProofTolerance;
  RaceResult found = Take(search_->Run(own), options.cutoff, options.budget);
  search_.reset();
  return found;
}

RaceResult TimetableContestant::FindBottleneck() {
  return Take(FindBottleneckPartition(ProblemOf(*request_, *candidate_, request_->partition)),
              std::numeric_limits<double>::infinity(), 0);
}

RaceResult TimetableContestant::Take(absl::StatusOr<PartitionAnswer> answer, double cutoff,
                                     int64_t budget) {
  RaceResult taken;
  if (answer.ok()) {
    taken.outcome = RaceOutcome::kFound;
    taken.seconds = answer->seconds;
    taken.lower_bound = answer->lower_bound;
    taken.steps = answer->steps;
    assignment_ = std::move(answer->assignment);
    return taken;
  }
  taken.steps = budget;
  taken.cutoff = cutoff;
  taken.why = answer.status();
  switch (answer.status().code()) {
    case absl::StatusCode::kNotFound:
      taken.outcome = RaceOutcome::kSlower;
      break;
    case absl::StatusCode::kDeadlineExceeded:
      taken.outcome = RaceOutcome::kStopped;
      break;
    default:
      taken.outcome = RaceOutcome::kRefused;
  }
  return taken;
}

std::string TimetableContestant::WhySlower() const {
  if (!request_->machines.limits_memory()) return "proved slower";
  const PartitionProblem problem = ProblemOf(*request_, *candidate_, request_->partition);
  const Feasible feasible(problem);
  const std::vector<RangeCost> stages = PriceStages(problem, feasible.LeastMemory());
  if (feasible.Fits(stages)) return "proved slower with every partition that fits";
  return absl::StrCat("needs ", DescribeMemory(feasible.LargestBytes(stages)), " a device");
}

}  // namespace sluice
