#include "partitioner/planning/race/joint_plan.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "partitioner/planning/plan/least_memory_plan.h"
#include "partitioner/planning/race/race.h"
#include "partitioner/planning/race/setting_contestant.h"
#include "schedules/optimise/parallel_for.h"

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

class JointPlanner {
 public:
  explicit JointPlanner(const JointRequest& request)
      : request_(request),
        common_(request.common),
        race_({.gap = request.common.gap,
               .budget = request.common.budget,
               .least_budget = kLeastBudget,
               .wave = kWave,
               .stop = [this] { return Stopped(); },
               .leave_when_stopped = true,
               .after_wave = [this] { Report(); },
               .on_found = [this] { found_ = true; }}) {
    common_.stop = [this] { return Stopped(); };
  }

  absl::StatusOr<JointPlan> Run() {
    Price();
    const std::vector<SettingContestant*> order = MostPromisingFirst();
    if (order.empty()) return WhyNothing();
    race_.Run({order.begin(), order.end()});
    if (race_.best() == nullptr) Rescue(order);
    if (race_.best() == nullptr) return WhyNothing();
    return Finish();
  }

 private:
  bool Stopped() const {
    if (request_.common.stop && request_.common.stop()) return true;
    return found_ && request_.stop_when_found && request_.stop_when_found();
  }

  void Price() {
    contestants_.resize(request_.settings.size());
    ParallelFor(contestants_.size(), [&](size_t i) {
      const PlanSetting& setting = request_.settings[i];
      contestants_[i] =
          std::make_unique<SettingContestant>(setting, common_, request_.price(setting));
    });
  }

  std::vector<SettingContestant*> ByFloor() const {
    std::vector<SettingContestant*> order;
    for (const auto& contestant : contestants_) {
      if (contestant->priced()) order.push_back(contestant.get());
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const auto* a, const auto* b) { return a->floor < b->floor; });
    return order;
  }

  // What was found quickly says more than a lower bound.
  std::vector<SettingContestant*> MostPromisingFirst() {
    std::vector<SettingContestant*> order = ByFloor();
    if (order.size() <= 1) return order;
    // Small micro-batches first: these fit where anything does.
    std::vector<SettingContestant*> quickly = order;
    std::erase_if(quickly, [](const auto* each) { return each->floor == kInfinity; });
    std::stable_sort(quickly.begin(), quickly.end(), [](const auto* a, const auto* b) {
      return a->setting().micro_batch_size < b->setting().micro_batch_size;
    });
    ParallelFor(std::min(quickly.size(), kQuicklyTried), [&](size_t i) {
      if (i != 0 && Stopped()) return;
      quickly[i]->Try();
      if (quickly[i]->quick_seconds() < kInfinity) found_ = true;
    });
    std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
      return std::pair(a->quick_seconds(), a->floor) < std::pair(b->quick_seconds(), b->floor);
    });
    return order;
  }

  // Stopped before anything was found: what was found quickly, or may be, is better than nothing.
  void Rescue(const std::vector<SettingContestant*>& order) {
    if (!Stopped()) return;
    for (SettingContestant* contestant : order) {
      if (contestant->quick_seconds() == kInfinity) return;
      if (!contestant->TakeQuickPlan()) continue;
      race_.Take(contestant);
      return;
    }
  }

  double LowerBound() const {
    double bound = kInfinity;
    for (const auto& contestant : contestants_) {
      bound = std::min(bound, contestant->LowerBound());
    }
    return bound;
  }

  void Report() const {
    if (!request_.progress) return;
    request_.progress({"", static_cast<int>(contestants_.size()), race_.tried(), race_.incumbent(),
                       std::min(race_.incumbent(), LowerBound())});
  }

  // Of the settings that do not fit, the one that needs the least memory says how much would do.
  absl::Status WhyNothing() const {
    absl::Status first, memory, stopped;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const auto& contestant : contestants_) {
      const absl::Status status = contestant->WhyNone();
      first.Update(status);
      if (absl::IsDeadlineExceeded(status)) stopped.Update(status);
      if (!absl::IsFailedPrecondition(status)) continue;
      const int64_t limit = contestant->request().machines.least_memory();
      const absl::StatusOr<LeanestPlan> leanest = MakeLeastMemoryPlan(contestant->request());
      if (absl::IsDeadlineExceeded(leanest.status())) memory.Update(NothingFits(limit));
      if (!leanest.ok() || leanest->plan.largest_peak_bytes() >= least) continue;
      least = leanest->plan.largest_peak_bytes();
      memory = NothingFits(*leanest, limit);
      if (contestants_.size() == 1) continue;
      memory = absl::FailedPreconditionError(
          absl::StrCat(memory.message(), " (", contestant->setting().Describe(), ")"));
    }
    if (!stopped.ok()) return stopped;
    if (Stopped() && memory.ok())
      return absl::DeadlineExceededError("stopped before any plan was found");
    return memory.ok() ? first : memory;
  }

  std::vector<RejectedPlan> RejectedSettings() const {
    std::vector<const SettingContestant*> others;
    for (const auto& contestant : contestants_) {
      if (contestant.get() != race_.best()) others.push_back(contestant.get());
    }
    std::stable_sort(others.begin(), others.end(), [](const auto* a, const auto* b) {
      return std::pair(a->result.seconds, a->floor) < std::pair(b->result.seconds, b->floor);
    });
    std::vector<RejectedPlan> rejected;
    rejected.reserve(others.size());
    for (const SettingContestant* other : others) {
      rejected.push_back({other->setting().Describe(), WhyRejected(*other)});
    }
    return rejected;
  }

  std::string WhyRejected(const SettingContestant& contestant) const {
    const double best = race_.best()->result.seconds;
    if (contestant.result.found()) {
      const double longer = contestant.result.seconds / best - 1;
      return absl::StrFormat("+%.1f %% with %s", 100 * longer, contestant.plan().description);
    }
    if (contestant.result.outcome == RaceOutcome::kSlower)
      return "proved slower with every partition that fits";
    const bool by_floor = !contestant.tried() && contestant.floor < kInfinity &&
                          contestant.floor >= best / (1 + request_.common.gap);
    if (!by_floor) return std::string(contestant.WhyNone().message());
    if (contestant.floor < best) {
      return absl::StrFormat("proved at most %.1f %% faster", 100 * (best / contestant.floor - 1));
    }
    return absl::StrFormat("proved slower: at least %+.1f %%", 100 * (contestant.floor / best - 1));
  }

  JointPlan Finish() {
    JointPlan joint;
    const std::vector<RejectedPlan> rejected = RejectedSettings();
    const double bound = LowerBound();
    const auto best = std::find_if(contestants_.begin(), contestants_.end(),
                                   [this](const auto& c) { return c.get() == race_.best(); });
    joint.plan = std::move((*best)->plan());
    joint.plan.SetLowerBound(bound);
    joint.plan.rejected.insert(joint.plan.rejected.begin(), rejected.begin(), rejected.end());
    joint.setting = (*best)->setting();
    joint.machines = (*best)->request().machines;
    joint.settings_tried = race_.tried();
    joint.settings_in_all = static_cast<int>(contestants_.size());
    return joint;
  }

  const JointRequest& request_;
  PlanRequest common_;                                           // request_.common, with Stopped()
  std::atomic<bool> found_{false};                               // something that fits
  std::vector<std::unique_ptr<SettingContestant>> contestants_;  // [setting]
  Race race_;
};

}  // namespace

absl::StatusOr<JointPlan> MakeJointPlan(const JointRequest& request) {
  if (request.settings.empty())
    return absl::InvalidArgumentError("there is no setting to plan for");
  return JointPlanner(request).Run();
}

}  // namespace sluice
