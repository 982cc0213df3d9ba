#include "pipeline/train/slow_stage.h"

#include <cstddef>

namespace sluice {
namespace {

constexpr size_t kHistory = 200;  // blocks that say how it was
constexpr double kSlow = 2;
constexpr double kOthers = 1.5;  // above this everybody has become slower
constexpr double kQuickAgain = 1.3;

}  // namespace

SlowStageWatch::SlowStageWatch(const std::vector<StageOnRank>& stages) : blocks_(stages.size()) {
  for (const StageOnRank& at : stages) stages_.emplace_back().at = at;
}

// How much longer the stage takes than it used to; 1 while that is not known.
double SlowStageWatch::Factor(size_t stage) const {
  const std::vector<double>& blocks = stages_[stage].usual;
  if (blocks.size() < StageBlocks::kRecent || !blocks_.full()) return 1;
  const double usual = MedianOf(blocks);
  return usual > 0 ? blocks_.Median(stage) / usual : 1;
}

std::optional<SlowStage> SlowStageWatch::Observe(int64_t step, double step_seconds,
                                                 const std::vector<double>& seconds) {
  if (!blocks_.Add(step_seconds, seconds)) return std::nullopt;
  for (size_t at = 0; at < stages_.size() && blocks_.has_dropped(); ++at) {
    // What was recent is history now; how it is while slow is not how it was.
    Stage& stage = stages_[at];
    if (!stage.slow && stage.usual.size() < kHistory) stage.usual.push_back(blocks_.dropped(at));
  }
  return NameSlowest(step);
}

std::optional<SlowStage> SlowStageWatch::NameSlowest(int64_t step) {
  std::vector<double> factors;
  for (size_t at = 0; at < stages_.size(); ++at) factors.push_back(Factor(at));
  std::optional<SlowStage> slowest;
  for (size_t at = 0; at < stages_.size(); ++at) {
    Stage& stage = stages_[at];
    std::vector<double> others = factors;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(at));
    const double rest = others.empty() ? 1 : MedianOf(others);
    if (factors[at] < kQuickAgain) stage.slow = false;
    if (stage.slow || factors[at] < kSlow || rest > kOthers) continue;
    stage.slow = true;
    if (slowest && slowest->factor >= factors[at]) continue;
    slowest = SlowStage{step, stage.at.stage, stage.at.rank, factors[at], rest};
  }
  return slowest;
}

}  // namespace sluice
