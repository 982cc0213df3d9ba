#include "partitioner/planner.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "partitioner/candidates.h"
#include "partitioner/exact_partition.h"
#include "partitioner/feasible.h"
#include "partitioner/plan_builder.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Elementary steps that all candidates share: what one leaves, the next ones may use.
constexpr int64_t kBudget = 600'000'000;

absl::Status CheckRequest(const PlanRequest& request) {
  if (request.devices < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("devices must be at least 1, not ", request.devices));
  }
  if (request.micro_batches < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("micro-batches must be at least 1, not ", request.micro_batches));
  }
  if (request.chunks < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunks must be at least 1, not ", request.chunks));
  }
  if (request.partition &&
      (request.partition->size() % static_cast<size_t>(request.devices)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the partition's ", request.partition->size(),
                                                   " stages do not share out over ",
                                                   request.devices, " devices"));
  }
  return absl::OkStatus();
}

// Tries one timetable after the other, and keeps the best plan.
class Planner {
 public:
  explicit Planner(const PlanRequest& request) : request_(request) {}

  absl::StatusOr<Plan> Run() {
    absl::StatusOr<std::vector<Candidate>> candidates = ListCandidates(request_, &rejected_);
    if (!candidates.ok()) return candidates.status();
    const int64_t most = options_.budget;
    int64_t left = kBudget, untried = static_cast<int64_t>(candidates->size());
    for (const Candidate& candidate : *candidates) {
      options_.budget = std::min(most, left / untried--);
      if (absl::Status status = Try(candidate); !status.ok()) return status;
      left -= std::min(left, spent_);
    }
    if (best_ == nullptr) return WhyNothing();
    RejectSlower();
    return Finish();
  }

 private:
  struct Tried {
    const Candidate* candidate;
    PartitionAnswer answer;
  };

  absl::Status Try(const Candidate& candidate) {
    const PartitionProblem problem = ProblemOf(request_, candidate);
    absl::StatusOr<PartitionAnswer> answer = request_.objective == Objective::kStep
                                                 ? FindExactPartition(problem, options_)
                                                 : FindBottleneckPartition(problem);
    spent_ = answer.ok() ? answer->steps : options_.budget;
    if (!answer.ok()) return Reject(candidate, answer.status());
    lower_bound_ = std::min(lower_bound_, answer->lower_bound);
    tried_.push_back({&candidate, *std::move(answer)});
    if (tried_.back().answer.seconds < Cutoff()) {
      options_.cutoff = tried_.back().answer.seconds;
      best_ = &candidate;
    }
    return absl::OkStatus();
  }
  // Less than the best by more than rounding.
  double Cutoff() const { return options_.cutoff * (1 - kProofTolerance); }

  absl::Status Reject(const Candidate& candidate, const absl::Status& status) {
    switch (status.code()) {
      case absl::StatusCode::kNotFound:
        rejected_.push_back({candidate.Describe(), DoesNotFit(candidate)});
        return absl::OkStatus();
      case absl::StatusCode::kDeadlineExceeded:
        lower_bound_ = 0;  // it might be better, for all that is known
        rejected_.push_back({candidate.Describe(), std::string(status.message())});
        return absl::OkStatus();
      default:
        // The bottleneck objective skips timetables with chunks when it may choose.
        if (request_.schedule != "auto") return status;
        rejected_.push_back({candidate.Describe(), std::string(status.message())});
        return absl::OkStatus();
    }
  }

  std::string DoesNotFit(const Candidate& candidate) const {
    const PartitionProblem problem = ProblemOf(request_, candidate);
    const Feasible feasible(problem);
    const int64_t bytes = feasible.LargestBytes(PriceStages(problem, feasible.LeastMemory()));
    if (bytes <= *request_.memory_limit) return "proved slower, where it fits";
    return absl::StrCat("needs ", DescribeMemory(bytes), " a device");
  }

  absl::Status WhyNothing() const {
    if (!request_.memory_limit) return absl::InvalidArgumentError(rejected_.back().why);
    const absl::StatusOr<Plan> leanest = MakeLeanestPlan(request_);
    if (!leanest.ok()) return leanest.status();
    return NothingFits(*leanest, *request_.memory_limit);
  }

  // The closest to the best one first.
  void RejectSlower() {
    std::vector<const Tried*> slower;
    for (const Tried& tried : tried_) {
      if (tried.candidate != best_) slower.push_back(&tried);
    }
    std::stable_sort(slower.begin(), slower.end(), [](const Tried* a, const Tried* b) {
      return a->answer.seconds < b->answer.seconds;
    });
    std::vector<RejectedPlan> rejected;
    rejected.reserve(slower.size());
    for (const Tried* tried : slower) {
      rejected.push_back({tried->candidate->Describe(), WhyNot(tried->answer)});
    }
    rejected_.insert(rejected_.begin(), rejected.begin(), rejected.end());
  }

  std::string WhyNot(const PartitionAnswer& answer) const {
    const double longer = answer.seconds / options_.cutoff - 1;
    if (longer <= kProofTolerance) return "as fast, but keeps as much or more in flight";
    const bool proved = answer.lower_bound >= Cutoff();
    return absl::StrFormat("+%.1f %% (best found; %sproved slower)", 100 * longer,
                           proved ? "" : "not ");
  }

  absl::StatusOr<Plan> Finish() {
    const auto chosen = std::find_if(tried_.begin(), tried_.end(),
                                     [&](const Tried& tried) { return tried.candidate == best_; });
    absl::StatusOr<Plan> built = BuildPlan(request_, *best_, chosen->answer.assignment);
    if (!built.ok()) return built;
    Plan& plan = *built;
    plan.SetLowerBound(lower_bound_);
    plan.rejected = rejected_;
    return built;
  }

  const PlanRequest& request_;
  SearchOptions options_;
  std::vector<RejectedPlan> rejected_;
  std::vector<Tried> tried_;
  const Candidate* best_ = nullptr;
  int64_t spent_ = 0;
  double lower_bound_ = kInfinity;
};

}  // namespace

void Plan::SetLowerBound(double bound) {
  lower_bound = std::min(bound, objective_seconds());
  optimal = gap() <= kProofTolerance;
}

absl::StatusOr<Plan> MakePlan(const PlanRequest& request) {
  if (absl::Status status = CheckRequest(request); !status.ok()) return status;
  return Planner(request).Run();
}

}  // namespace sluice
