#include "partitioner/planning/race/setting_contestant.h"

#include <algorithm>
#include <utility>

#include "partitioner/planning/race/planner.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

SettingContestant::SettingContestant(const PlanSetting& setting, const PlanRequest& request,
                                     absl::StatusOr<Machines> machines)
    : setting_(&setting), priced_(machines.ok()) {
  floor = kInfinity;
  if (!priced_) {
    result.outcome = RaceOutcome::kRefused;
    result.why = machines.status();
    return;
  }
  request_ = RequestOf(request, setting, *std::move(machines));
  floor = ObjectiveFloor(request_);
}

void SettingContestant::Try() { quick_seconds_ = QuickSeconds(request_); }

RaceResult SettingContestant::Search(const SearchOptions& options) {
  request_.cutoff = options.cutoff;
  request_.budget = options.budget;
  absl::StatusOr<std::optional<Plan>> plan = MakePlanBelowCutoff(request_);
  RaceResult taken;
  taken.steps = options.budget;
  taken.cutoff = options.cutoff;
  if (!plan.ok()) {
    const bool stopped = absl::IsDeadlineExceeded(plan.status());
    taken.outcome = stopped ? RaceOutcome::kStopped : RaceOutcome::kRefused;
    taken.why = plan.status();
  } else if (!*plan) {
    taken.outcome = RaceOutcome::kSlower;
  } else {
    plan_ = **std::move(plan);
    taken.outcome = RaceOutcome::kFound;
    taken.seconds = plan_->objective_seconds();
    taken.lower_bound = plan_->lower_bound;
    taken.steps = plan_->steps;
  }
  return taken;
}

bool SettingContestant::TakeQuickPlan() {
  PlanRequest quick = request_;
  if (!quick.schedule && quick.chunks <= 1) quick.schedule = "1f1b";
  quick.stop = {};
  quick.budget = 0;
  absl::StatusOr<Plan> plan = MakePlan(quick);
  if (!plan.ok()) return false;
  plan->SetLowerBound(floor);  // of all schedules
  plan_ = *std::move(plan);
  result.outcome = RaceOutcome::kFound;
  result.seconds = plan_->objective_seconds();
  result.lower_bound = plan_->lower_bound;
  return true;
}

double SettingContestant::LowerBound() const {
  switch (result.outcome) {
    case RaceOutcome::kNotTried:
    case RaceOutcome::kStopped:
      return floor;
    case RaceOutcome::kFound:
      return std::max(floor, result.lower_bound);
    case RaceOutcome::kSlower:  // nothing below the cutoff, up to the gap allowed
      return std::max(floor, result.cutoff / (1 + request_.gap));
    case RaceOutcome::kRefused:
      break;
  }
  return kInfinity;
}

absl::Status SettingContestant::WhyNone() const {
  if (tried()) return result.why;
  if (floor < kInfinity) return absl::DeadlineExceededError("not tried in the time");
  return absl::FailedPreconditionError("needs more memory than all devices have");
}

}  // namespace sluice
