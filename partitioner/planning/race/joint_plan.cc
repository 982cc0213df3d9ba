#include "partitioner/planning/race/joint_plan.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "partitioner/bounds/step_floor.h"
#include "partitioner/plan_request.h"
#include "partitioner/planning/leanest_plan.h"
#include "partitioner/planning/plan.h"
#include "partitioner/planning/race/planner.h"
#include "partitioner/search/exact_partition.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Settings that are searched side by side; fixed, so that the answer does not depend on the number
// of threads.
constexpr size_t kWave = 4;
// Settings of which something is found before the search.
constexpr size_t kQuicklyTried = 24;
// Elementary steps that every setting gets, whatever the others took.
constexpr int64_t kLeastBudget = 10'000'000;

struct Entrant {
  const PlanSetting* setting = nullptr;
  bool priced = false;
  PlanRequest request;
  double floor = kInfinity;  // seconds
  double quick = kInfinity;
  absl::StatusOr<Plan> plan = absl::UnknownError("not tried");
  bool tried = false;
};

class JointPlanner {
 public:
  explicit JointPlanner(const JointRequest& request)
      : request_(request), entrants_(request.settings.size()) {}

  absl::StatusOr<JointPlan> Run() {
    Price();
    std::vector<Entrant*> order = MostPromisingFirst();
    if (order.empty()) return WhyNothing();
    for (size_t first = 0; first < order.size() && !Stopped(); first += kWave) {
      std::vector<Entrant*> wave;
      for (size_t i = first; i < std::min(order.size(), first + kWave); ++i) {
        if (order[i]->floor < incumbent_ / (1 + request_.common.gap)) wave.push_back(order[i]);
      }
      if (wave.empty()) continue;
      RunWave(wave, std::max(kLeastBudget, left_ / static_cast<int64_t>(order.size() - first)));
      done_ += static_cast<int>(wave.size());
      Report();
    }
    if (best_ == nullptr) Rescue(order);
    if (best_ == nullptr) return WhyNothing();
    return Finish();
  }

 private:
  // Stopped before anything was found: what was found quickly, or may be, is better than nothing.
  void Rescue(const std::vector<Entrant*>& order) {
    if (!Stopped()) return;
    for (Entrant* entrant : order) {
      if (entrant->quick == kInfinity) return;
      PlanRequest request = entrant->request;
      if (request.schedule == "auto" && request.chunks <= 1) request.schedule = "1f1b";
      request.stop = {};
      request.budget = 0;
      absl::StatusOr<Plan> plan = MakePlan(request);
      if (!plan.ok()) continue;
      plan->SetLowerBound(entrant->floor);  // of all schedules
      entrant->plan = std::move(plan);
      entrant->tried = true;
      incumbent_ = entrant->plan->objective_seconds();
      best_ = entrant;
      return;
    }
  }

  bool Stopped() const { return request_.common.stop && request_.common.stop(); }

  void Price() {
    tbb::parallel_for(size_t{0}, entrants_.size(), [&](size_t i) {
      Entrant& entrant = entrants_[i];
      entrant.setting = &request_.settings[i];
      absl::StatusOr<Machines> machines = request_.price(*entrant.setting);
      if (!machines.ok()) {
        entrant.plan = machines.status();
        return;
      }
      entrant.priced = true;
      entrant.request = RequestOf(request_, *entrant.setting, *std::move(machines));
      entrant.floor = StepFloor(entrant.request);
    });
  }

  std::vector<Entrant*> ByFloor() {
    std::vector<Entrant*> order;
    for (Entrant& entrant : entrants_) {
      if (entrant.priced) order.push_back(&entrant);
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const Entrant* a, const Entrant* b) { return a->floor < b->floor; });
    return order;
  }

  // What was found quickly says more than a floor.
  std::vector<Entrant*> MostPromisingFirst() {
    std::vector<Entrant*> order = ByFloor();
    if (order.size() <= 1) return order;
    // Small micro-batches first: these fit where anything does.
    std::vector<Entrant*> quickly = order;
    std::erase_if(quickly, [](const Entrant* entrant) { return entrant->floor == kInfinity; });
    std::stable_sort(quickly.begin(), quickly.end(), [](const Entrant* a, const Entrant* b) {
      return a->setting->micro_batch_size < b->setting->micro_batch_size;
    });
    tbb::parallel_for(size_t{0}, std::min(quickly.size(), kQuicklyTried), [&](size_t i) {
      if (i > 0 && Stopped()) return;
      quickly[i]->quick = QuickSeconds(quickly[i]->request);
    });
    std::stable_sort(order.begin(), order.end(), [](const Entrant* a, const Entrant* b) {
      return std::pair(a->quick, a->floor) < std::pair(b->quick, b->floor);
    });
    return order;
  }

  void RunWave(const std::vector<Entrant*>& wave, int64_t budget) {
    const double cutoff = incumbent_;
    tbb::parallel_for(size_t{0}, wave.size(), [&](size_t i) {
      wave[i]->request.cutoff = cutoff;
      wave[i]->request.budget = budget;
      wave[i]->plan = MakePlan(wave[i]->request);
    });
    for (Entrant* entrant : wave) {
      entrant->tried = true;
      left_ -= std::min(left_, entrant->plan.ok() ? entrant->plan->steps : budget);
      if (!entrant->plan.ok()) continue;
      const double seconds = entrant->plan->objective_seconds();
      if (seconds >= incumbent_ * (1 - kProofTolerance) && best_ != nullptr) continue;
      incumbent_ = seconds;
      best_ = entrant;
    }
  }

  // What is proved of one setting.
  double BoundOf(const Entrant& entrant) const {
    if (!entrant.priced) return kInfinity;
    if (!entrant.tried) return entrant.floor;
    if (entrant.plan.ok()) return std::max(entrant.floor, entrant.plan->lower_bound);
    switch (entrant.plan.status().code()) {
      case absl::StatusCode::kDeadlineExceeded:
        return entrant.floor;
      case absl::StatusCode::kNotFound:  // nothing below the cutoff, up to the gap allowed
        return std::max(entrant.floor, entrant.request.cutoff / (1 + request_.common.gap));
      default:
        return kInfinity;
    }
  }
  double LowerBound() const {
    double bound = kInfinity;
    for (const Entrant& entrant : entrants_) bound = std::min(bound, BoundOf(entrant));
    return bound;
  }

  void Report() const {
    if (!request_.progress) return;
    request_.progress({static_cast<int>(entrants_.size()), done_, incumbent_,
                       std::min(incumbent_, LowerBound())});
  }

  // Of the settings that do not fit, the one that needs the least memory says how much would do.
  absl::Status WhyNothing() const {
    absl::Status first, memory, stopped;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const Entrant& entrant : entrants_) {
      const absl::Status status = WhyNot(entrant);
      first.Update(status);
      if (status.code() == absl::StatusCode::kDeadlineExceeded) stopped.Update(status);
      if (status.code() != absl::StatusCode::kFailedPrecondition) continue;
      const absl::StatusOr<Plan> leanest = MakeLeanestPlan(entrant.request);
      if (!leanest.ok()) continue;
      const int64_t bytes = leanest->largest_peak_bytes();
      if (bytes >= least) continue;
      least = bytes;
      memory = NothingFits(*leanest, entrant.request.machines.least_memory());
      if (entrants_.size() == 1) continue;
      memory = absl::FailedPreconditionError(
          absl::StrCat(memory.message(), " (", entrant.setting->Describe(), ")"));
    }
    if (!stopped.ok()) return stopped;
    if (Stopped()) return absl::DeadlineExceededError("stopped before any plan was found");
    return memory.ok() ? first : memory;
  }
  static absl::Status WhyNot(const Entrant& entrant) {
    if (!entrant.priced || entrant.tried) return entrant.plan.status();
    if (entrant.floor < kInfinity) return absl::DeadlineExceededError("not tried in the time");
    return absl::FailedPreconditionError("needs more memory than all devices have");
  }

  std::vector<RejectedPlan> RejectedSettings() const {
    std::vector<const Entrant*> others;
    for (const Entrant& entrant : entrants_) {
      if (&entrant != best_) others.push_back(&entrant);
    }
    const auto seconds = [](const Entrant* entrant) {
      return entrant->plan.ok() ? entrant->plan->objective_seconds() : kInfinity;
    };
    std::stable_sort(others.begin(), others.end(), [&](const Entrant* a, const Entrant* b) {
      return std::pair(seconds(a), a->floor) < std::pair(seconds(b), b->floor);
    });
    std::vector<RejectedPlan> rejected;
    for (const Entrant* other : others) {
      rejected.push_back({other->setting->Describe(), WhyRejected(*other)});
    }
    return rejected;
  }

  std::string WhyRejected(const Entrant& entrant) const {
    if (entrant.tried && entrant.plan.ok()) {
      const double longer = entrant.plan->objective_seconds() / incumbent_ - 1;
      return absl::StrFormat("+%.1f %% with %s", 100 * longer, entrant.plan->description);
    }
    const absl::Status status = WhyNot(entrant);
    if (status.code() == absl::StatusCode::kNotFound) return "proved slower, where it fits";
    const bool by_floor =
        !entrant.tried && entrant.priced && entrant.floor >= incumbent_ / (1 + request_.common.gap);
    if (by_floor && entrant.floor < kInfinity) {
      return absl::StrFormat("proved slower: at least %+.1f %%",
                             100 * (entrant.floor / incumbent_ - 1));
    }
    return std::string(status.message());
  }

  JointPlan Finish() {
    JointPlan joint;
    std::vector<RejectedPlan> rejected = RejectedSettings();
    const double bound = LowerBound();
    joint.plan = *std::move(best_->plan);
    joint.plan.SetLowerBound(bound);
    joint.plan.rejected.insert(joint.plan.rejected.begin(), rejected.begin(), rejected.end());
    joint.setting = *best_->setting;
    joint.machines = std::move(best_->request.machines);
    joint.settings_tried = done_;
    joint.settings_in_all = static_cast<int>(entrants_.size());
    return joint;
  }

  const JointRequest& request_;
  std::vector<Entrant> entrants_;
  double incumbent_ = kInfinity;
  Entrant* best_ = nullptr;
  int done_ = 0;
  int64_t left_ = request_.common.budget;  // elementary steps
};

}  // namespace

PlanRequest RequestOf(const JointRequest& joint, const PlanSetting& setting, Machines machines) {
  PlanRequest request = joint.common;
  request.machines = std::move(machines);
  request.devices = setting.pipeline;
  request.micro_batches = setting.micro_batches;
  return request;
}

absl::StatusOr<JointPlan> MakeJointPlan(const JointRequest& request) {
  if (request.settings.empty())
    return absl::InvalidArgumentError("there is no setting to plan for");
  return JointPlanner(request).Run();
}

}  // namespace sluice
