#ifndef SLUICE_PIPELINE_TRAIN_STAGE_BLOCKS_H_
#define SLUICE_PIPELINE_TRAIN_STAGE_BLOCKS_H_

#include <cstddef>
#include <deque>
#include <vector>

#include "absl/types/span.h"

namespace sluice {

// What stages have lately taken. Only what lasts counts, since another program may have the machine's
// cores for a moment: steps are taken together to blocks of two steps and a second at least, and the
// medians are those of the last five blocks.
class StageBlocks {
 public:
  static constexpr size_t kRecent = 5;  // blocks

  explicit StageBlocks(size_t stages) : sums_(stages), recent_(stages), dropped_(stages) {}

  // `step_seconds`: of the whole step; `seconds`: of each stage. Whether a block has ended with it.
  bool Add(double step_seconds, absl::Span<const double> seconds);

  bool full() const { return steps_.size() == kRecent; }
  // Over the recent blocks, of a step's mean: of stage `stage`, and of the whole step.
  double Median(size_t stage) const;
  double MedianStep() const;
  // Whether the block that has just ended has pushed an older one out, and its mean seconds by stage.
  bool has_dropped() const { return has_dropped_; }
  double dropped(size_t stage) const { return dropped_[stage]; }

 private:
  std::vector<double> sums_;                // [stage] of the block that is not full yet
  std::vector<std::deque<double>> recent_;  // [stage][block], newest last
  std::deque<double> steps_;                // [block]
  std::vector<double> dropped_;             // [stage]
  bool has_dropped_ = false;
  int block_steps_ = 0;
  double block_seconds_ = 0;
};

// The middle one; of an even number the higher one of the two. Requires a value.
double MedianOf(std::vector<double> values);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_STAGE_BLOCKS_H_
