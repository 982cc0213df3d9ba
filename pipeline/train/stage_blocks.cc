#include "pipeline/train/stage_blocks.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

constexpr int kBlockSteps = 2;
constexpr double kBlockSeconds = 1;

}  // namespace

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool StageBlocks::Add(double step_seconds, absl::Span<const double> seconds) {
  for (size_t stage = 0; stage < sums_.size(); ++stage) sums_[stage] += seconds[stage];
  block_seconds_ += step_seconds;
  if (++block_steps_ < kBlockSteps || block_seconds_ < kBlockSeconds) return false;
  has_dropped_ = full();
  for (size_t stage = 0; stage < sums_.size(); ++stage) {
    recent_[stage].push_back(std::exchange(sums_[stage], 0) / block_steps_);
    if (!has_dropped_) continue;
    dropped_[stage] = recent_[stage].front();
    recent_[stage].pop_front();
  }
  steps_.push_back(std::exchange(block_seconds_, 0) / std::exchange(block_steps_, 0));
  if (has_dropped_) steps_.pop_front();
  return true;
}

double StageBlocks::Median(size_t stage) const {
  return MedianOf({recent_[stage].begin(), recent_[stage].end()});
}

double StageBlocks::MedianStep() const { return MedianOf({steps_.begin(), steps_.end()}); }

}  // namespace sluice
