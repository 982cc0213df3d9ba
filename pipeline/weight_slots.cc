#include "pipeline/weight_slots.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "schedules/dependency.h"

namespace sluice {
namespace {

constexpr int kUnread = -1;  // the version of a micro-batch whose F has not come

// Walks one stage's actions: which version each F reads, and how many versions live at once.
class StageWalk {
 public:
  StageWalk(const Timetable& table, int stage) : table_(table), stage_(stage) {
    slots_.version.assign(static_cast<size_t>(table.micro_batches),
                          table.updates == WeightUpdates::kEachMicroBatch ? kUnread : 0);
    if (table.updates != WeightUpdates::kDoubleBuffered) return;
    for (int mb = 0; mb < table.micro_batches; ++mb)
      version(mb) = std::max(mb / table.update_every - 1, 0);
  }

  WeightSlots Run() {
    for (const Action& action : table_.rows[static_cast<size_t>(table_.placement.rank(stage_))]) {
      if (action.stage != stage_) continue;
      if (action.op == Op::kForward && version(action.micro_batch) == kUnread)
        version(action.micro_batch) = newest_;
      if (MakesWeightGrad(action.op)) finished_ = action.micro_batch + 1;
      if (action.op == Op::kOptimizerStep) Update();
    }
    return std::move(slots_);
  }

 private:
  // Gradients come in micro-batch order and versions never go back, so the oldest version that is
  // still needed is that of the first micro-batch whose gradient has not come.
  void Update() {
    ++newest_;
    if (finished_ >= table_.micro_batches) return;
    const int oldest = version(finished_) == kUnread ? newest_ : version(finished_);
    slots_.count = std::max(slots_.count, newest_ - oldest + 1);
  }

  int& version(int mb) { return slots_.version[static_cast<size_t>(mb)]; }

  const Timetable& table_;
  const int stage_;
  WeightSlots slots_;
  int newest_ = 0;
  int finished_ = 0;  // micro-batches whose gradients are complete
};

// The update, from 0, that applies the gradient of `mb`.
int UpdateOf(const Timetable& table, int mb) {
  return table.updates == WeightUpdates::kEachMicroBatch ? mb : mb / table.update_every;
}

}  // namespace

WeightSlots SlotsOf(const Timetable& table, int stage) {
  if (table.updates != WeightUpdates::kFlush) return StageWalk(table, stage).Run();
  return {.version = std::vector<int>(static_cast<size_t>(table.micro_batches), 0)};
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
