#include "pipeline/train/slow_stage.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

constexpr int kBlockSteps = 2;
constexpr double kBlockSeconds = 1;
constexpr size_t kRecent = 5;     // blocks that say how it is now
constexpr size_t kHistory = 200;  // blocks that say how it was
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

SlowStageWatch::SlowStageWatch(const std::vector<StageOnRank>& stages) {
  for (const StageOnRank& at : stages) stages_.emplace_back().at = at;
}

// How much longer the stage takes than it used to; 1 while that is not known.
double SlowStageWatch::Factor(const Stage& stage) {
  if (stage.usual.size() < kRecent || stage.recent.size() < kRecent) return 1;
  const double usual = Median(stage.usual);
  return usual > 0 ? Median(stage.recent) / usual : 1;
}

std::optional<SlowStage> SlowStageWatch::Observe(int64_t step, double step_seconds,
                                                 const std::vector<double>& seconds) {
  for (size_t at = 0; at < stages_.size(); ++at) stages_[at].sum += seconds[at];
  block_seconds_ += step_seconds;
  if (++block_steps_ < kBlockSteps || block_seconds_ < kBlockSeconds) return std::nullopt;
  EndBlock();
  return NameSlowest(step);
}

void SlowStageWatch::EndBlock() {
  for (Stage& stage : stages_) {
    stage.recent.push_back(std::exchange(stage.sum, 0) / block_steps_);
    if (stage.recent.size() <= kRecent) continue;
    // What was recent is history now; how it is while slow is not how it was.
    if (!stage.slow && stage.usual.size() < kHistory) stage.usual.push_back(stage.recent.front());
    stage.recent.pop_front();
  }
  block_steps_ = 0;
  block_seconds_ = 0;
}

std::optional<SlowStage> SlowStageWatch::NameSlowest(int64_t step) {
  std::vector<double> factors;
  for (const Stage& stage : stages_) factors.push_back(Factor(stage));
  std::optional<SlowStage> slowest;
  for (size_t at = 0; at < stages_.size(); ++at) {
    Stage& stage = stages_[at];
    std::vector<double> others = factors;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(at));
    const double rest = others.empty() ? 1 : Median(others);
    if (factors[at] < kQuickAgain) stage.slow = false;
    if (stage.slow || factors[at] < kSlow || rest > kOthers) continue;
    stage.slow = true;
    if (slowest && slowest->factor >= factors[at]) continue;
    slowest = SlowStage{step, stage.at.stage, stage.at.rank, factors[at], rest};
  }
  return slowest;
}

}  // namespace sluice
