#include "schedules/weight_versions.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "schedules/dependency.h"

namespace sluice {
namespace {

// Walks one stage's actions: which version each F reads, and where each version can lie.
class StageWalk {
 public:
  StageWalk(const Timetable& table, int stage) : table_(table), stage_(stage) {
    slots_.version.assign(static_cast<size_t>(table.micro_batches), 0);
    slots_.slot_of_version = {0};
    live_[0] = 0;
  }

  WeightSlots Run() {
    for (const Action& action : table_.rows[static_cast<size_t>(table_.placement.rank(stage_))]) {
      if (action.stage != stage_) continue;
      int& version = slots_.version[static_cast<size_t>(std::max(action.micro_batch, 0))];
      if (action.op == Op::kForward) {
        version = VersionOf(table_, action.micro_batch, newest_);
        next_forward_ = action.micro_batch + 1;
        in_flight_.insert(version);
      }
      if (MakesWeightGrad(action.op)) in_flight_.erase(in_flight_.find(version));
      if (action.op == Op::kOptimizerStep) Update();
    }
    return std::move(slots_);
  }

 private:
  // The newest version changes in place unless some micro-batch still needs it.
  void Update() {
    std::erase_if(
        live_, [this](const auto& live) { return live.first != newest_ && !Needed(live.first); });
    int slot = live_.at(newest_);
    if (Needed(newest_)) {
      slot = FreeSlot();
    } else {
      live_.erase(newest_);
    }
    live_[++newest_] = slot;
    slots_.slot_of_version.push_back(slot);
    slots_.count = std::max(slots_.count, slot + 1);
  }

  // By a micro-batch in flight, or by one to come that takes no newer one.
  bool Needed(int version) const {
    if (in_flight_.contains(version)) return true;
    return next_forward_ < table_.micro_batches &&
           VersionOf(table_, next_forward_, newest_ + 1) <= version;
  }

  int FreeSlot() const {
    const auto taken = [this](int slot) {
      return std::any_of(live_.begin(), live_.end(),
                         [slot](const auto& live) { return live.second == slot; });
    };
    int slot = 0;
    while (taken(slot)) ++slot;
    return slot;
  }

  const Timetable& table_;
  const int stage_;
  WeightSlots slots_;
  int newest_ = 0;
  int next_forward_ = 0;
  std::multiset<int> in_flight_;  // versions
  std::map<int, int> live_;       // version -> slot
};

}  // namespace

WeightSlots SlotsOf(const Timetable& table, int stage) {
  if (table.updates != WeightUpdates::kFlush) return StageWalk(table, stage).Run();
  return {.version = std::vector<int>(static_cast<size_t>(table.micro_batches), 0),
          .slot_of_version = {0}};
}

std::vector<Staleness> StalenessOf(const Timetable& table) {
  if (table.updates == WeightUpdates::kFlush) return {};
  std::vector<Staleness> staleness(static_cast<size_t>(table.micro_batches));
  const int stages = table.placement.stages();
  for (int stage = 0; stage < stages; ++stage) {
    const WeightSlots slots = SlotsOf(table, stage);
    for (int mb = 0; mb < table.micro_batches; ++mb) {
      Staleness& at = staleness[static_cast<size_t>(mb)];
      const int age = UpdateOf(table, mb) - slots.version[static_cast<size_t>(mb)];
      at.max = std::max(at.max, age);
      at.mean += static_cast<double>(age) / stages;
    }
  }
  return staleness;
}

}  // namespace sluice
