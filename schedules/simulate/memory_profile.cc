#include "schedules/simulate/memory_profile.h"

#include <algorithm>

#include "schedules/dependency.h"
#include "schedules/recomputed.h"

namespace sluice {
namespace {

double At(const std::vector<double>& per_stage, const Action& action) {
  return per_stage.empty() ? 0 : per_stage[action.stage];
}

// What one rank holds after each action of its row. Actions of one rank never overlap in time (a
// pair starts and ends as one), so the order of the row is the order in time.
class RankMemory {
 public:
  RankMemory(const StageCosts& costs, const Recomputed& recomputed)
      : costs_(costs), recomputed_(recomputed) {}

  void Start(const Action& action) {
    if (action.op == Op::kForward) {
      peak_count_ = std::max(peak_count_, ++count_);
      bytes_ += At(costs_.activation_bytes, action);
    } else if (action.op == Op::kRecompute) {
      bytes_ += Dropped(action);
    } else {
      return;
    }
    peak_bytes_ = std::max(peak_bytes_, bytes_);
  }

  void End(const Action& action) {
    if (MakesWeightGrad(action.op)) --count_;
    if (costs_.activation_bytes.empty()) return;
    const double activation = At(costs_.activation_bytes, action);
    const double kept = At(costs_.weight_grad_bytes, action);
    if (action.op == Op::kBackward) bytes_ -= activation;
    if (action.op == Op::kInputGrad) bytes_ += kept - activation;
    if (action.op == Op::kWeightGrad) bytes_ -= kept;
    if (action.op == Op::kForward && !recomputed_.empty() &&
        recomputed_.count({action.stage, action.micro_batch}) > 0) {
      bytes_ -= Dropped(action);
    }
  }

  // After what ends as one: an I may have added more than it let go.
  void Settle() { peak_bytes_ = std::max(peak_bytes_, bytes_); }

  int count() const { return count_; }
  double bytes() const { return bytes_; }
  int peak_count() const { return peak_count_; }
  double peak_bytes() const { return peak_bytes_; }

 private:
  double Dropped(const Action& action) const {
    return At(costs_.activation_bytes, action) -
           std::min(At(costs_.activation_bytes, action), At(costs_.checkpoint_bytes, action));
  }

  const StageCosts& costs_;
  const Recomputed& recomputed_;
  int count_ = 0;
  int peak_count_ = 0;
  double bytes_ = 0;
  double peak_bytes_ = 0;
};

// Calls starts(i) before and ends(i) after each action or pair, i being its first position.
template <typename Row, typename Starts, typename Ends>
void Replay(const Row& row, RankMemory& memory, Starts starts, Ends ends) {
  for (size_t i = 0; i < row.size(); ++i) {
    const size_t last = i + (ActionOf(row[i]).overlaps_next ? 1 : 0);
    for (size_t k = i; k <= last; ++k) memory.Start(ActionOf(row[k]));
    starts(i);
    for (size_t k = i; k <= last; ++k) memory.End(ActionOf(row[k]));
    memory.Settle();
    ends(i);
    i = last;
  }
}

}  // namespace

void MeasureMemory(const Timetable& timetable, const StageCosts& costs, Simulation* simulation) {
  for (const auto& row : timetable.rows) {
    const Recomputed recomputed = RecomputedIn(row);
    RankMemory memory(costs, recomputed);
    Replay(
        row, memory, [](size_t) {}, [](size_t) {});
    simulation->peak_activations.push_back(memory.peak_count());
    if (!costs.activation_bytes.empty()) simulation->peak_bytes.push_back(memory.peak_bytes());
  }
}

std::vector<MemoryPoint> MemoryOverTime(const std::vector<TimedAction>& row,
                                        const StageCosts& costs) {
  std::vector<MemoryPoint> points = {{}};
  const Recomputed recomputed = RecomputedIn(row);
  RankMemory memory(costs, recomputed);
  const auto note = [&](double time) {
    const MemoryPoint& last = points.back();
    if (last.activations == memory.count() && last.bytes == memory.bytes()) return;
    points.push_back({time, memory.count(), memory.bytes()});
  };
  Replay(
      row, memory, [&](size_t i) { note(row[i].start); }, [&](size_t i) { note(row[i].end); });
  return points;
}

}  // namespace sluice
