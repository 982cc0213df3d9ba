#include "pipeline/run/slow_stage.h"

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

}  // namespace

SlowStageWatch::SlowStageWatch(std::vector<StageOnRank> stages)
    : stages_(std::move(stages)),
      recent_(stages_.size()),
      usual_(stages_.size()),
      slow_(stages_.size()) {}

// How much longer the stage takes than it used to; 1 while that is not known.
double SlowStageWatch::Factor(size_t at) const {
  if (usual_[at].size() < kRecent || recent_[at].size() < kRecent) return 1;
  const double usual = Median(usual_[at]);
  return usual > 0 ? Median(recent_[at]) / usual : 1;
}

std::optional<SlowStage> SlowStageWatch::Observe(int64_t step, const std::vector<double>& seconds) {
  std::vector<double> factors;
  for (size_t at = 0; at < stages_.size(); ++at) {
    std::deque<double>& recent = recent_[at];
    recent.push_back(seconds[at]);
    if (recent.size() > kRecent) {
      // What was recent is history now; how it is while slow is not how it was.
      if (!slow_[at] && usual_[at].size() < kHistory) usual_[at].push_back(recent.front());
      recent.pop_front();
    }
    factors.push_back(Factor(at));
  }
  std::optional<SlowStage> slowest;
  for (size_t at = 0; at < stages_.size(); ++at) {
    std::vector<double> others = factors;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(at));
    const double rest = others.empty() ? 1 : Median(others);
    if (factors[at] < kQuickAgain) slow_[at] = false;
    if (slow_[at] || factors[at] < kSlow || rest > kOthers) continue;
    slow_[at] = true;
    if (slowest && slowest->factor >= factors[at]) continue;
    slowest = SlowStage{step, stages_[at].stage, stages_[at].rank, factors[at], rest};
  }
  return slowest;
}

}  // namespace sluice
