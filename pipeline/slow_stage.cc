#include "pipeline/slow_stage.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

constexpr size_t kRecent = 5;     // steps that say how it is now
constexpr size_t kHistory = 200;  // steps that say how it was
constexpr double kSlow = 2;
constexpr double kOthers = 1.5;  // above this everybody has become slower
constexpr double kQuickAgain = 1.3;

template <typename Values>
double Median(const Values& values) {
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

double MicroBatchSeconds(const StageCosts& costs, size_t stage) {
  return costs.forward[stage] + costs.backward[stage] + costs.input_grad[stage] +
         costs.weight_grad[stage];
}

}  // namespace

SlowStageWatch::SlowStageWatch(std::vector<int> ranks)
    : ranks_(std::move(ranks)),
      recent_(ranks_.size()),
      usual_(ranks_.size()),
      slow_(ranks_.size()) {}

// How much longer the stage takes than it used to; 1 while that is not known.
double SlowStageWatch::Factor(size_t stage) const {
  if (usual_[stage].size() < kRecent || recent_[stage].size() < kRecent) return 1;
  const double usual = Median(usual_[stage]);
  return usual > 0 ? Median(recent_[stage]) / usual : 1;
}

std::optional<SlowStage> SlowStageWatch::Observe(int64_t step, const StageCosts& costs) {
  std::vector<double> factors;
  for (size_t stage = 0; stage < ranks_.size(); ++stage) {
    std::deque<double>& recent = recent_[stage];
    recent.push_back(MicroBatchSeconds(costs, stage));
    if (recent.size() > kRecent) {
      // What was recent is history now; how it is while slow is not how it was.
      if (!slow_[stage] && usual_[stage].size() < kHistory) usual_[stage].push_back(recent.front());
      recent.pop_front();
    }
    factors.push_back(Factor(stage));
  }
  std::optional<SlowStage> slowest;
  for (size_t stage = 0; stage < ranks_.size(); ++stage) {
    std::vector<double> others = factors;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(stage));
    const double rest = others.empty() ? 1 : Median(others);
    if (factors[stage] < kQuickAgain) slow_[stage] = false;
    if (slow_[stage] || factors[stage] < kSlow || rest > kOthers) continue;
    slow_[stage] = true;
    if (slowest && slowest->factor >= factors[stage]) continue;
    slowest = SlowStage{step, static_cast<int>(stage), ranks_[stage], factors[stage], rest};
  }
  return slowest;
}

}  // namespace sluice
