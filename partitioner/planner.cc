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
#include "partitioner/minimax.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Elementary steps that all candidates share: what one leaves, the next ones may use.
constexpr int64_t kBudget = 600'000'000;

std::string FormatMemory(int64_t bytes) {
  constexpr double kMebi = 1 << 20, kGibi = 1 << 30;
  const double value = static_cast<double>(bytes);
  if (value >= kGibi) return absl::StrFormat("%.2f GiB (%d bytes)", value / kGibi, bytes);
  return absl::StrFormat("%.2f MiB (%d bytes)", value / kMebi, bytes);
}

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
    options_.budget = std::min(options_.budget, kBudget / static_cast<int64_t>(candidates->size()));
    for (const Candidate& candidate : *candidates) {
      if (absl::Status status = Try(candidate); !status.ok()) return status;
    }
    if (best_ == nullptr) return NothingFits();
    RejectSlower();
    return Finish();
  }

 private:
  struct Tried {
    const Candidate* candidate;
    PartitionAnswer answer;
  };

  PartitionProblem Problem(const Candidate& candidate) const {
    PartitionProblem problem;
    problem.costs = request_.costs;
    problem.timetable = &candidate.timetable;
    problem.link = request_.link;
    problem.memory_limit = request_.memory_limit;
    problem.policies = request_.policies;
    problem.fixed = request_.partition;
    return problem;
  }

  absl::Status Try(const Candidate& candidate) {
    const PartitionProblem problem = Problem(candidate);
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

  // Remembers the candidate that needs least.
  std::string DoesNotFit(const Candidate& candidate) {
    const PartitionProblem problem = Problem(candidate);
    const Feasible feasible(problem);
    const StageAssignment leanest = feasible.LeastMemory();
    const std::vector<RangeCost> stages = PriceStages(problem, leanest);
    const int64_t bytes = feasible.LargestBytes(stages);
    if (bytes <= *request_.memory_limit) {
      return "fits, but takes longer";
    }
    if (bytes < least_bytes_) {
      least_bytes_ = bytes;
      least_message_ = DescribeLeanest(candidate, feasible, leanest, stages);
    }
    return absl::StrCat("needs ", FormatMemory(bytes), " a device");
  }

  static std::string DescribeLeanest(const Candidate& candidate, const Feasible& feasible,
                                     const StageAssignment& leanest,
                                     const std::vector<RangeCost>& stages) {
    int binding = 0;
    for (int stage = 0; stage < static_cast<int>(stages.size()); ++stage) {
      if (feasible.StageBytes(stage, stages[stage]) >
          feasible.StageBytes(binding, stages[binding])) {
        binding = stage;
      }
    }
    return absl::StrCat("with ", candidate.Describe(), ", stage ", binding, " (layers ",
                        FormatPartition({leanest.partition[binding]}), ", ",
                        feasible.in_flight().peak(binding), " micro-batches in flight, recompute ",
                        RecomputeName(leanest.recompute[binding]), ") needs most");
  }

  absl::Status NothingFits() const {
    std::string message =
        absl::StrCat("no plan fits into ", FormatMemory(*request_.memory_limit), " a device: ");
    if (least_bytes_ == std::numeric_limits<int64_t>::max()) {
      absl::StrAppend(&message, rejected_.back().why);
    } else {
      absl::StrAppend(&message, "even the leanest needs ", FormatMemory(least_bytes_), "; ",
                      least_message_);
    }
    return absl::FailedPreconditionError(message);
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
    for (const Tried* tried : slower) {
      rejected.push_back({tried->candidate->Describe(), WhyNot(tried->answer)});
    }
    rejected_.insert(rejected_.begin(), rejected.begin(), rejected.end());
  }

  std::string WhyNot(const PartitionAnswer& answer) const {
    const double longer = answer.seconds / options_.cutoff - 1;
    if (longer <= kProofTolerance) return "as fast, but keeps as much or more in flight";
    const std::string best = absl::StrFormat("its best found takes %.1f %% longer", 100 * longer);
    return answer.lower_bound >= Cutoff() ? absl::StrCat("proved slower; ", best)
                                          : absl::StrCat("not proved slower, but ", best);
  }

  absl::StatusOr<Plan> Finish() {
    const auto chosen = std::find_if(tried_.begin(), tried_.end(),
                                     [&](const Tried& tried) { return tried.candidate == best_; });
    const PartitionProblem problem = Problem(*best_);
    Plan plan;
    plan.objective = request_.objective;
    plan.schedule = best_->schedule;
    plan.description = best_->Describe();
    plan.devices = request_.devices;
    plan.chunks = best_->chunks;
    plan.micro_batches = request_.micro_batches;
    plan.timetable = best_->timetable;
    plan.assignment = chosen->answer.assignment;
    plan.stages = PriceStages(problem, plan.assignment);
    plan.stage_costs = ToStageCosts(problem, plan.stages);
    absl::StatusOr<Simulation> simulation = Simulate(plan.timetable, plan.stage_costs);
    if (!simulation.ok()) return simulation.status();
    plan.simulation = *std::move(simulation);
    const InFlight in_flight(plan.timetable);
    for (int stage = 0; stage < problem.stages(); ++stage) {
      plan.in_flight.push_back(in_flight.peak(stage));
    }
    plan.peak_bytes = PeakBytes(in_flight, plan.stages);
    plan.step_seconds = plan.simulation.makespan;
    plan.bottleneck_seconds = BottleneckSeconds(problem, plan.assignment);
    plan.lower_bound = std::min(lower_bound_, plan.objective_seconds());
    plan.optimal = plan.gap() <= kProofTolerance;
    plan.rejected = rejected_;
    return plan;
  }

  const PlanRequest& request_;
  SearchOptions options_;
  std::vector<RejectedPlan> rejected_;
  std::vector<Tried> tried_;
  const Candidate* best_ = nullptr;
  int64_t spent_ = 0;
  double lower_bound_ = kInfinity;
  int64_t least_bytes_ = std::numeric_limits<int64_t>::max();
  std::string least_message_;
};

}  // namespace

absl::StatusOr<Plan> MakePlan(const PlanRequest& request) {
  if (absl::Status status = CheckRequest(request); !status.ok()) return status;
  return Planner(request).Run();
}

}  // namespace sluice
