#ifndef SLUICE_SCHEDULES_PARTITION_H_
#define SLUICE_SCHEDULES_PARTITION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Layers first..last, both included.
struct LayerRange {
  int first = 0;
  int last = 0;

  int size() const { return last - first + 1; }
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

// One range per stage, in order, without gaps.
using Partition = std::vector<LayerRange>;

// Reads "0-3,4,5-7". InvalidArgument names the part that is wrong: it is not a range, leaves a gap,
// overlaps the one before, or goes past the last layer.
absl::StatusOr<Partition> ParsePartition(absl::string_view text, int layer_count);
std::string FormatPartition(const Partition& partition);
// `layer_count` layers over `stages` stages: sizes differ by at most one, the longer ones first.
// InvalidArgument when there are more stages than layers, or either is below 1.
absl::StatusOr<Partition> EvenPartition(int layer_count, int stages);
// `partition` with one layer less in stage `from` and one more in stage `to`: every cut between the
// two moves by one layer towards `from`. As it is where both are one stage. Stage `from` must have
// two layers or more.
Partition MoveLayer(Partition partition, int from, int to);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_PARTITION_H_
