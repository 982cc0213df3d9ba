#include "schedules/weight_versions.h"

#include <set>
#include <utility>

#include "schedules/check/validate.h"
#include "schedules/dependency.h"

namespace sluice {
namespace {

// Follows one stage along its row.
class StageHistory {
 public:
  StageHistory(const Timetable& table, int stage) : table_(table), stage_(stage) {
    found_.version.assign(table.micro_batches, 0);
    found_.staleness.assign(table.micro_batches, 0);
  }

  StageVersions Follow() && {
    for (const Action& action : table_.rows[table_.placement.rank(stage_)]) {
      if (action.stage != stage_) continue;
      if (action.op == Op::kForward) Forward(action.micro_batch);
      if (MakesWeightGrad(action.op)) Gradient(action.micro_batch);
      if (action.op == Op::kOptimizerStep) ++updates_;
      Count();
    }
    const int visited = table_.MicroBatchesOf(stage_);
    if (visited > 0) found_.mean_staleness /= visited;
    return std::move(found_);
  }

 private:
  void Forward(int b) {
    found_.version[b] = VersionOf(table_, b, updates_);
    in_flight_.insert(found_.version[b]);
    next_forward_ = b + 1;
  }

  void Gradient(int b) {
    in_flight_.erase(in_flight_.find(found_.version[b]));
    const int stale = UpdateOf(table_, b) - found_.version[b];
    found_.staleness[b] = stale;
    found_.max_staleness = std::max(found_.max_staleness, stale);
    found_.mean_staleness += stale;
  }

  void Count() {
    std::set<int> kept(in_flight_.begin(), in_flight_.end());
    kept.insert(updates_);
    if (table_.updates == WeightUpdates::kDoubleBuffered && next_forward_ < table_.micro_batches) {
      kept.insert(std::min(updates_, VersionOf(table_, next_forward_, updates_)));
    }
    found_.kept = std::max(found_.kept, static_cast<int>(kept.size()));
  }

  const Timetable& table_;
  const int stage_;
  int updates_ = 0;
  int next_forward_ = 0;
  std::multiset<int> in_flight_;  // the versions that micro-batches between F and B (or W) use
  StageVersions found_;
};

}  // namespace

absl::StatusOr<std::vector<StageVersions>> FindWeightVersions(const Timetable& timetable) {
  if (absl::Status sound = ValidateTimetable(timetable); !sound.ok()) return sound;
  std::vector<StageVersions> stages;
  stages.reserve(timetable.placement.stages());
  for (int stage = 0; stage < timetable.placement.stages(); ++stage) {
    stages.push_back(StageHistory(timetable, stage).Follow());
    if (timetable.updates == WeightUpdates::kFlush) stages.back().kept = 1;
  }
  return stages;
}

}  // namespace sluice
