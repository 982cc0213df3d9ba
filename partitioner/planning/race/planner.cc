#include "partitioner/planning/race/planner.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "partitioner/bounds/step_floor.h"
#include "partitioner/memory/feasible.h"
#include "partitioner/orders/free_order.h"
#include "partitioner/plan_request.h"
#include "partitioner/planning/candidates.h"
#include "partitioner/planning/leanest_plan.h"
#include "partitioner/planning/plan.h"
#include "partitioner/planning/plan_builder.h"
#include "partitioner/search/exact_partition.h"
#include "partitioner/search/partition_search.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Searches that run side by side.
constexpr size_t kWave = 4;

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
//
// First every timetable gets a few quick assignments. Then, best first, the exact search, which has
// to beat the best known: most timetables are proved slower at once. The searches run side by side
// in waves of a fixed size, each wave with what the ones before it found, so that the answer does
// not depend on the number of threads.
class Planner {
 public:
  explicit Planner(const PlanRequest& request)
      : request_(request),
        floor_(request.objective == PlanObjective::kStep ? StepFloor(request) : 0),
        incumbent_(request.cutoff) {}

  absl::StatusOr<Plan> Run() {
    if (floor_ == kInfinity) return WhyNothing();
    free_ = FindFreeOrder(request_, floor_ * (1 + request_.gap));
    if (free_) {
      incumbent_ = free_->seconds;
      if (RelativeGap(incumbent_, floor_) <= request_.gap) return FinishFree();
    }
    absl::StatusOr<std::vector<Candidate>> candidates =
        ListCandidates(request_, &rejected_, &cut_short_);
    if (!candidates.ok()) return candidates.status();
    if (cut_short_) lower_bound_ = floor_;
    for (const Candidate& candidate : *candidates) entrants_.emplace_back().candidate = &candidate;
    if (request_.objective == PlanObjective::kStep) {
      if (absl::Status status = Race(); !status.ok()) return status;
    } else if (absl::Status status = FindBottlenecks(); !status.ok()) {
      return status;
    }
    if (best_ == nullptr && !free_) return WhyNothing();
    RejectSlower();
    return best_ == nullptr ? FinishFree() : Finish();
  }

 private:
  struct Entrant {
    const Candidate* candidate = nullptr;
    std::unique_ptr<PartitionSearch> search;
    double seed = kInfinity;  // seconds
    absl::StatusOr<PartitionAnswer> answer = absl::UnknownError("not tried");

    bool found() const { return answer.ok(); }
  };

  bool Stopped() const { return request_.stop && request_.stop(); }

  absl::Status Race() {
    tbb::parallel_for(size_t{0}, entrants_.size(), [&](size_t i) {
      Entrant& entrant = entrants_[i];
      if (Stopped()) {
        entrant.answer = absl::DeadlineExceededError("not tried in the time");
        return;
      }
      absl::StatusOr<std::unique_ptr<PartitionSearch>> search =
          PartitionSearch::Create(ProblemOf(request_, *entrant.candidate));
      if (!search.ok()) {
        entrant.answer = search.status();
        return;
      }
      entrant.search = *std::move(search);
      entrant.seed = entrant.search->Seed();
    });
    std::vector<Entrant*> order;
    for (Entrant& entrant : entrants_) {
      if (entrant.search == nullptr) {
        if (absl::Status status = Reject(entrant); !status.ok()) return status;
        continue;
      }
      incumbent_ = std::min(incumbent_, entrant.seed);
      order.push_back(&entrant);
    }
    // Of those equally fast so far, the one with the fewest in flight comes first.
    std::stable_sort(order.begin(), order.end(), [](const Entrant* a, const Entrant* b) {
      return a->seed * (1 + kProofTolerance) < b->seed;
    });
    int64_t left = request_.budget;  // what one leaves, the next ones may use
    for (size_t first = 0; first < order.size(); first += kWave) {
      const size_t end = std::min(order.size(), first + kWave);
      left -= RunWave(absl::MakeSpan(order).subspan(first, end - first),
                      left / static_cast<int64_t>(order.size() - first));
    }
    steps_ = request_.budget - left;
    return Choose();
  }

  // Returns the elementary steps that the searches took.
  int64_t RunWave(absl::Span<Entrant*> wave, int64_t budget) {
    SearchOptions options;
    // An answer as good as the incumbent is of interest: it may be the incumbent.
    options.cutoff = incumbent_ * (1 + 2 * kProofTolerance);
    options.gap = request_.gap;
    options.budget = budget;
    options.stop = request_.stop;
    tbb::parallel_for(size_t{0}, wave.size(),
                      [&](size_t i) { wave[i]->answer = wave[i]->search->Run(options); });
    int64_t steps = 0;
    for (Entrant* entrant : wave) {
      entrant->search.reset();
      steps += entrant->found() ? entrant->answer->steps : budget;
      if (entrant->found()) incumbent_ = std::min(incumbent_, entrant->answer->seconds);
    }
    return std::min(steps, static_cast<int64_t>(wave.size()) * budget);
  }

  absl::Status FindBottlenecks() {
    for (Entrant& entrant : entrants_) {
      entrant.answer = FindBottleneckPartition(ProblemOf(request_, *entrant.candidate));
      if (entrant.found()) incumbent_ = std::min(incumbent_, entrant.answer->seconds);
    }
    return Choose();
  }

  // The first of the fastest, and what is proved of all.
  absl::Status Choose() {
    for (Entrant& entrant : entrants_) {
      if (!entrant.found()) {
        if (absl::Status status = Reject(entrant); !status.ok()) return status;
        continue;
      }
      lower_bound_ = std::min(lower_bound_, entrant.answer->lower_bound);
      const bool faster = best_ == nullptr ||
                          entrant.answer->seconds < best_->answer->seconds * (1 - kProofTolerance);
      const double limit = free_ ? free_->seconds : request_.cutoff;
      if (faster && entrant.answer->seconds < limit) best_ = &entrant;
    }
    return absl::OkStatus();
  }

  absl::Status Reject(const Entrant& entrant) {
    const absl::Status& status = entrant.answer.status();
    const std::string what = entrant.candidate->Describe();
    switch (status.code()) {
      case absl::StatusCode::kNotFound:
        lower_bound_ = std::min(lower_bound_, incumbent_ / (1 + request_.gap));
        rejected_.push_back({what, DoesNotFit(*entrant.candidate)});
        return absl::OkStatus();
      case absl::StatusCode::kDeadlineExceeded:
        lower_bound_ = std::min(lower_bound_, floor_);
        stopped_ = status;
        rejected_.push_back({what, std::string(status.message())});
        return absl::OkStatus();
      default:
        // The bottleneck objective skips timetables with chunks when it may choose.
        if (request_.schedule != "auto") return status;
        rejected_.push_back({what, std::string(status.message())});
        return absl::OkStatus();
    }
  }

  std::string DoesNotFit(const Candidate& candidate) const {
    if (!request_.machines.limits_memory()) return "proved slower";
    const PartitionProblem problem = ProblemOf(request_, candidate);
    const Feasible feasible(problem);
    const std::vector<RangeCost> stages = PriceStages(problem, feasible.LeastMemory());
    if (feasible.Fits(stages)) return "proved slower, where it fits";
    return absl::StrCat("needs ", DescribeMemory(feasible.LargestBytes(stages)), " a device");
  }

  absl::Status WhyNothing() const {
    if (!stopped_.ok()) return stopped_;
    if (request_.cutoff < kInfinity) return absl::NotFoundError("no plan is fast enough");
    if (!request_.machines.limits_memory()) {
      return absl::InvalidArgumentError(rejected_.empty() ? "there is nothing to try"
                                                          : rejected_.back().why);
    }
    const absl::StatusOr<Plan> leanest = MakeLeanestPlan(request_);
    if (!leanest.ok()) return leanest.status();
    return NothingFits(*leanest, request_.machines.least_memory());
  }

  // The closest to the best one first.
  void RejectSlower() {
    std::vector<const Entrant*> slower;
    for (const Entrant& entrant : entrants_) {
      if (entrant.found() && &entrant != best_) slower.push_back(&entrant);
    }
    std::stable_sort(slower.begin(), slower.end(), [](const Entrant* a, const Entrant* b) {
      return a->answer->seconds < b->answer->seconds;
    });
    std::vector<RejectedPlan> rejected;
    rejected.reserve(slower.size());
    for (const Entrant* entrant : slower) {
      rejected.push_back({entrant->candidate->Describe(), WhyNot(*entrant->answer)});
    }
    rejected_.insert(rejected_.begin(), rejected.begin(), rejected.end());
  }

  std::string WhyNot(const PartitionAnswer& answer) const {
    const double best = best_ == nullptr ? free_->seconds : best_->answer->seconds;
    const double longer = answer.seconds / best - 1;
    if (longer <= kProofTolerance) return "as fast, but keeps as much or more in flight";
    const bool proved = answer.lower_bound >= best * (1 - kProofTolerance);
    return absl::StrFormat("+%.1f %% (best found; %sproved slower)", 100 * longer,
                           proved ? "" : "not ");
  }

  absl::StatusOr<Plan> Finish() {
    absl::StatusOr<Plan> built = BuildPlan(request_, *best_->candidate, best_->answer->assignment);
    if (!built.ok()) return built;
    Plan& plan = *built;
    plan.SetLowerBound(std::max(lower_bound_, floor_));
    plan.rejected = rejected_;
    plan.steps = steps_;
    return built;
  }
  // An order of its own is one of all there are, so only what holds for all of them bounds it.
  absl::StatusOr<Plan> FinishFree() {
    absl::StatusOr<Plan> built = BuildPlan(request_, free_->candidate, free_->assignment);
    if (!built.ok()) return built;
    built->SetLowerBound(floor_);
    built->rejected = rejected_;
    built->steps = steps_;
    return built;
  }

  const PlanRequest& request_;
  const double floor_;            // seconds that no plan beats; 0 for other objectives
  std::deque<Entrant> entrants_;  // those with the fewest in flight first
  double incumbent_;              // seconds of the best known
  std::vector<RejectedPlan> rejected_;
  std::optional<FreeOrder> free_;
  const Entrant* best_ = nullptr;  // null where free_ is better
  absl::Status stopped_;
  bool cut_short_ = false;  // some schedules were not even generated
  double lower_bound_ = kInfinity;
  int64_t steps_ = 0;
};

}  // namespace

double QuickSeconds(const PlanRequest& request) {
  PlanRequest quick = request;
  quick.stop = {};
  if (quick.schedule == "auto" && quick.chunks <= 1 && !quick.partition) {
    quick.schedule = "1f1b";
    quick.chunks = 1;
  }
  std::vector<RejectedPlan> rejected;
  bool stopped = false;
  if (!CheckRequest(quick).ok()) return kInfinity;
  const absl::StatusOr<std::vector<Candidate>> candidates =
      ListCandidates(quick, &rejected, &stopped);
  if (!candidates.ok()) return kInfinity;
  const PartitionProblem problem = ProblemOf(quick, candidates->front());
  absl::StatusOr<std::unique_ptr<PartitionSearch>> search = PartitionSearch::Create(problem);
  return search.ok() ? (*search)->Seed() : kInfinity;
}

absl::StatusOr<Plan> MakePlan(const PlanRequest& request) {
  if (absl::Status status = CheckRequest(request); !status.ok()) return status;
  return Planner(request).Run();
}

}  // namespace sluice
