#include "schedules/memory_profile.h"

#include <algorithm>

#include "schedules/dependency.h"

namespace sluice {
namespace {

// What one rank holds as its row goes by. Actions of one rank never overlap in time (a pair starts
// and ends as one), so the order of the row is the order in time.
class RankMemory {
 public:
  explicit RankMemory(const StageCosts& costs) : costs_(costs) {}

  void Start(const Action& action) {
    if (action.op != Op::kForward) return;
    peak_count_ = std::max(peak_count_, ++count_);
    bytes_ += At(costs_.activation_bytes, action);
    peak_bytes_ = std::max(peak_bytes_, bytes_);
  }

  void End(const Action& action) {
    if (MakesWeightGrad(action.op)) --count_;
    const double activation = At(costs_.activation_bytes, action);
    const double kept = std::min(activation, At(costs_.weight_grad_bytes, action));
    if (action.op == Op::kBackward) bytes_ -= activation;
    if (action.op == Op::kInputGrad) bytes_ -= activation - kept;
    if (action.op == Op::kWeightGrad) bytes_ -= kept;
  }

  int peak_count() const { return peak_count_; }
  double peak_bytes() const { return peak_bytes_; }

 private:
  static double At(const std::vector<double>& per_stage, const Action& action) {
    return per_stage.empty() ? 0 : per_stage[action.stage];
  }

  const StageCosts& costs_;
  int count_ = 0;
  int peak_count_ = 0;
  double bytes_ = 0;
  double peak_bytes_ = 0;
};

}  // namespace

void MeasureMemory(const StageCosts& costs, Simulation* simulation) {
  for (const auto& row : simulation->rows) {
    RankMemory memory(costs);
    for (size_t i = 0; i < row.size(); ++i) {
      const size_t last = i + (row[i].action.overlaps_next ? 1 : 0);
      for (size_t k = i; k <= last; ++k) memory.Start(row[k].action);
      for (size_t k = i; k <= last; ++k) memory.End(row[k].action);
      i = last;
    }
    simulation->peak_activations.push_back(memory.peak_count());
    if (!costs.activation_bytes.empty()) simulation->peak_bytes.push_back(memory.peak_bytes());
  }
}

}  // namespace sluice
