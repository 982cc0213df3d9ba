#ifndef SLUICE_PARTITIONER_PLANNING_RACE_SETTING_CONTESTANT_H_
#define SLUICE_PARTITIONER_PLANNING_RACE_SETTING_CONTESTANT_H_

#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "partitioner/machines.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/question/plan_request.h"
#include "partitioner/planning/question/setting.h"
#include "partitioner/planning/race/race.h"
#include "partitioner/search/search_options.h"

namespace sluice {

// One way to use the devices: finds the best plan for it.
class SettingContestant : public Contestant {
 public:
  // `setting` must outlive it. `request` holds for all settings; where `machines` has a status,
  // this one cannot be priced, and has no place in the race.
  SettingContestant(const PlanSetting& setting, const PlanRequest& request,
                    absl::StatusOr<Machines> machines);

  // Looks quickly for something, without a limit of time.
  void Try();
  RaceResult Search(const SearchOptions& options) override;
  // Takes what needs no search, for want of time: one schedule, cut as Try() found it. Whether that
  // gave a plan.
  bool TakeQuickPlan();

  const PlanSetting& setting() const { return *setting_; }
  const PlanRequest& request() const { return request_; }
  bool priced() const { return priced_; }
  bool tried() const { return result.outcome != RaceOutcome::kNotTried; }
  double quick_seconds() const { return quick_seconds_; }  // infinite where Try() found nothing
  // Requires result.found(), and may be taken once.
  Plan& plan() { return *plan_; }
  const Plan& plan() const { return *plan_; }

  // No plan of this setting takes less; infinite where it has none.
  double LowerBound() const;
  // Why it has no plan, where it was not proved slower.
  absl::Status WhyNone() const;

 private:
  const PlanSetting* setting_;
  PlanRequest request_;
  bool priced_;
  double quick_seconds_ = std::numeric_limits<double>::infinity();
  std::optional<Plan> plan_;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_RACE_SETTING_CONTESTANT_H_
