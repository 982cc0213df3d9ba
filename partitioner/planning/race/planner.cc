#include "partitioner/planning/race/planner.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "partitioner/bounds/step_floor.h"
#include "partitioner/candidate.h"
#include "partitioner/orders/custom_order.h"
#include "partitioner/planning/plan/candidates.h"
#include "partitioner/planning/plan/least_memory_plan.h"
#include "partitioner/planning/plan/plan_builder.h"
#include "partitioner/planning/race/race.h"
#include "partitioner/planning/race/timetable_contestant.h"
#include "partitioner/search/partition_answer.h"
#include "schedules/counted.h"
#include "schedules/optimise/parallel_for.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Searches that run side by side.
constexpr size_t kWave = 4;
// A plan that is as close to the bound is left as it is; one of the catalogue also where another
// order would save less than this.
constexpr double kSmallGap = 0.002;
constexpr double kWorthwhile = 0.002;
// One whose gap is larger may have a much better order: so many more plans are ordered anew, too.
constexpr double kFar = 0.05;
constexpr size_t kMoreStarts = 2;

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
    return absl::InvalidArgumentError(
        absl::StrCat("the partition's ", Counted(request.partition->size(), "stage"),
                     " cannot be divided evenly among ", Counted(request.devices, "device")));
  }
  return absl::OkStatus();
}

// Tries every timetable that a request allows, and keeps the best plan: first each gets a few quick
// assignments, then, best first, the exact search, which has to beat the best known.
class Planner {
 public:
  Planner(const PlanRequest& request, const Plan* before)
      : request_(request),
        before_(before),
        floor_(ObjectiveFloor(request)),
        race_({.cutoff = request.cutoff,
               .gap = request.gap,
               .budget = request.budget,
               .wave = kWave,
               .stop = request.stop}) {}

  // Nothing where it is proved that no plan is below the cutoff.
  absl::StatusOr<std::optional<Plan>> Run() {
    if (floor_ == kInfinity) return WhyNothing();
    if (AllowsCustomOrder(request_)) {
      custom_ = FindCustomOrder(request_, {.cutoff = request_.cutoff,
                                           .enough = floor_ * (1 + request_.gap),
                                           .stop = request_.stop});
    }
    if (custom_) {
      race_.Lower(custom_->seconds);
      ChooseCustom();
      if (RelativeGap(best_->seconds, Bound()) <= request_.gap) return Finish();
    }
    const absl::StatusOr<std::vector<Candidate>> candidates =
        ListCandidates(request_, &rejected_, &cut_short_);
    if (cut_short_ && !candidates.ok() && best_) return Finish();
    if (!candidates.ok()) return candidates.status();
    if (cut_short_) lower_bound_ = floor_;
    for (const Candidate& candidate : *candidates) contestants_.emplace_back(request_, candidate);
    if (request_.objective == PlanObjective::kStep) {
      FindSteps();
    } else {
      FindBottlenecks();
    }
    if (absl::Status status = Choose(); !status.ok()) return status;
    if (!best_) return WhyNothing();
    Reorder();
    RejectSlower();
    return Finish();
  }

 private:
  // The best plan so far, of a contestant or custom_.
  struct Chosen {
    const Candidate* candidate;
    const StageAssignment* assignment;
    double seconds;
    bool custom;
  };

  void ChooseCustom() {
    best_ = {&custom_->candidate, &custom_->assignment, custom_->seconds, /*custom=*/true};
  }

  // Seconds that no plan which competes with the best one beats. A custom order competes with
  // every order, so only StepFloor() bounds it.
  double Bound() const { return best_->custom ? floor_ : std::max(lower_bound_, floor_); }

  void FindSteps() {
    std::vector<double> seeds(contestants_.size());
    ParallelFor(contestants_.size(), [&](size_t i) { seeds[i] = contestants_[i].Seed(); });
    std::vector<size_t> order;
    for (size_t i = 0; i < contestants_.size(); ++i) {
      race_.Lower(seeds[i]);
      if (contestants_[i].prepared()) order.push_back(i);
    }
    // Of those equally fast so far, the one with the fewest in flight comes first.
    std::stable_sort(order.begin(), order.end(), [&seeds](size_t a, size_t b) {
      return seeds[a] * (1 + kProofTolerance) < seeds[b];
    });
    std::vector<Contestant*> racing;
    racing.reserve(order.size());
    for (size_t i : order) racing.push_back(&contestants_[i]);
    race_.Run(racing);
  }

  void FindBottlenecks() {
    for (TimetableContestant& contestant : contestants_) {
      contestant.result = contestant.FindBottleneck();
      race_.Take(&contestant);
    }
  }

  // The first of the fastest, and what is proved of all.
  absl::Status Choose() {
    for (const TimetableContestant& contestant : contestants_) {
      const RaceResult& result = contestant.result;
      if (!result.found()) {
        if (absl::Status status = Reject(contestant); !status.ok()) return status;
        continue;
      }
      lower_bound_ = std::min(lower_bound_, result.lower_bound);
      const double limit = !best_          ? request_.cutoff
                           : best_->custom ? best_->seconds
                                           : best_->seconds * (1 - kProofTolerance);
      if (result.seconds >= limit) continue;
      best_ = {&contestant.candidate(), &contestant.assignment(), result.seconds,
               /*custom=*/false};
    }
    return absl::OkStatus();
  }

  // The catalogue's orders suit equal stages, and those of FindCustomOrder follow simple rules:
  // where the best plan may be far from what is possible, an order made for it may be faster.
  void Reorder() {
    if (!AllowsCustomOrder(request_) || !MayImprove()) return;
    const std::vector<const TimetableContestant*> others = Slower();
    ReorderFrom(*best_->candidate, *best_->assignment);
    for (size_t i = 0; i < std::min(others.size(), kMoreStarts) && MayImprove(kFar); ++i) {
      ReorderFrom(others[i]->candidate(), others[i]->assignment());
    }
    if (before_ != nullptr && MayImprove()) {
      ReorderFrom({before_->schedule, before_->chunks, before_->timetable, nullptr},
                  AssignmentOf(*before_));
    }
    if (MayImprove()) {
      const std::optional<CustomOrder> start =
          FindCustomOrder(request_, {.few_actions = true, .stop = request_.stop});
      if (start) ReorderFrom(start->candidate, start->assignment);
    }
  }

  bool MayImprove(double small_gap = kSmallGap) const {
    const double small = std::max(request_.gap, small_gap);
    return RelativeGap(best_->seconds, Bound()) > small + kProofTolerance;
  }

  void ReorderFrom(const Candidate& candidate, const StageAssignment& assignment) {
    const double less = best_->custom ? kProofTolerance : kWorthwhile;
    std::optional<CustomOrder> better =
        FindBetterOrder(request_, candidate, assignment,
                        {.cutoff = best_->seconds * (1 - less), .stop = request_.stop});
    if (!better) return;
    custom_ = std::move(better);
    ChooseCustom();
  }

  absl::Status Reject(const TimetableContestant& contestant) {
    const RaceResult& result = contestant.result;
    std::string why(result.why.message());
    if (result.outcome == RaceOutcome::kSlower) {
      lower_bound_ = std::min(lower_bound_, race_.incumbent() / (1 + request_.gap));
      why = contestant.WhySlower();
    } else if (result.outcome == RaceOutcome::kStopped) {
      lower_bound_ = std::min(lower_bound_, floor_);
      stopped_ = result.why;
    } else if (request_.schedule) {
      return result.why;
    }
    // The bottleneck objective skips timetables with chunks when it may choose.
    rejected_.push_back({contestant.candidate().Describe(), std::move(why)});
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<Plan>> WhyNothing() const {
    if (!stopped_.ok()) return stopped_;
    if (request_.cutoff < kInfinity) return std::nullopt;
    if (!request_.machines.limits_memory()) {
      return absl::InvalidArgumentError(rejected_.empty() ? "there is nothing to try"
                                                          : rejected_.back().why);
    }
    const int64_t limit = request_.machines.least_memory();
    const absl::StatusOr<LeanestPlan> leanest = MakeLeastMemoryPlan(request_);
    if (absl::IsDeadlineExceeded(leanest.status())) return NothingFits(limit);
    if (!leanest.ok()) return leanest.status();
    return NothingFits(*leanest, limit);
  }

  // What was found of the catalogue besides the best one, the closest to it first.
  std::vector<const TimetableContestant*> Slower() const {
    std::vector<const TimetableContestant*> slower;
    for (const TimetableContestant& contestant : contestants_) {
      if (contestant.result.found() && &contestant.candidate() != best_->candidate) {
        slower.push_back(&contestant);
      }
    }
    std::stable_sort(slower.begin(), slower.end(), [](const auto* a, const auto* b) {
      return a->result.seconds < b->result.seconds;
    });
    return slower;
  }

  void RejectSlower() {
    const double best = best_->seconds;
    std::vector<RejectedPlan> rejected;
    for (const TimetableContestant* each : Slower()) {
      const bool proved = each->result.lower_bound >= best * (1 - kProofTolerance);
      rejected.push_back(
          {each->candidate().Describe(), WhyLonger(each->result.seconds, best, proved)});
    }
    rejected_.insert(rejected_.begin(), rejected.begin(), rejected.end());
  }

  absl::StatusOr<std::optional<Plan>> Finish() {
    absl::StatusOr<Plan> plan = BuildPlan(request_, *best_->candidate, *best_->assignment);
    if (!plan.ok()) return plan.status();
    plan->SetLowerBound(Bound());
    plan->rejected = rejected_;
    plan->steps = race_.steps();
    return *std::move(plan);
  }

  const PlanRequest& request_;
  const Plan* const before_;
  const double floor_;  // ObjectiveFloor()
  Race race_;
  std::deque<TimetableContestant> contestants_;  // those with the fewest in flight first
  std::vector<RejectedPlan> rejected_;
  std::optional<CustomOrder> custom_;
  std::optional<Chosen> best_;
  absl::Status stopped_;
  bool cut_short_ = false;  // some schedules were not even generated
  double lower_bound_ = kInfinity;
};

}  // namespace

double ObjectiveFloor(const PlanRequest& request) {
  const double step = StepFloor(request);
  return request.objective == PlanObjective::kStep || step == kInfinity ? step : 0;
}

double QuickSeconds(const PlanRequest& request) {
  PlanRequest quick = request;
  quick.stop = {};
  if (!quick.schedule && quick.chunks <= 1 && !quick.partition) {
    quick.schedule = "1f1b";
    quick.chunks = 1;
  }
  std::vector<RejectedPlan> rejected;
  bool stopped = false;
  if (!CheckRequest(quick).ok()) return kInfinity;
  const absl::StatusOr<std::vector<Candidate>> candidates =
      ListCandidates(quick, &rejected, &stopped);
  if (!candidates.ok()) return kInfinity;
  TimetableContestant contestant(quick, candidates->front());
  if (request.objective == PlanObjective::kStep) return contestant.Seed();
  return contestant.FindBottleneck().seconds;
}

absl::StatusOr<std::optional<Plan>> MakePlanBelowCutoff(const PlanRequest& request,
                                                        const Plan* before) {
  if (absl::Status status = CheckRequest(request); !status.ok()) return status;
  return Planner(request, before).Run();
}

absl::StatusOr<Plan> MakePlan(const PlanRequest& request, const Plan* before) {
  absl::StatusOr<std::optional<Plan>> plan = MakePlanBelowCutoff(request, before);
  if (!plan.ok()) return plan.status();
  if (!*plan) return absl::NotFoundError("no plan is fast enough");
  return **std::move(plan);
}

}  // namespace sluice
