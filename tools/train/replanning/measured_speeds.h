#ifndef SLUICE_TOOLS_TRAIN_REPLANNING_MEASURED_SPEEDS_H_
#define SLUICE_TOOLS_TRAIN_REPLANNING_MEASURED_SPEEDS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// What training has shown of the ranks and layers of a run, which the layers' FLOPs do not say.
struct MeasuredSpeeds {
  // [rank of the group] 1: as fast as the fastest; 0.5: takes twice as long for the same layers.
  // Empty: all are alike.
  std::vector<double> ranks = {};
  // [layer] a multiple of the seconds that its FLOPs say, the same multiple of them meaning the same
  // time. Empty: 1 each.
  std::vector<double> layers = {};

  // [rank of the group] seconds of a stage's output on its way to the next rank, from the last to the
  // first, where a layer's seconds are those that its FLOPs say times its factor. Empty: none to speak of.
  std::vector<double> links = {};

  bool known() const { return !ranks.empty(); }
  // "1,0.48 0:1,6:1.31 0,0.02": the ranks, each factor from the layer on with which it begins, and the
  // links; "" where nothing is known. With three digits: ranks that compute a plan from the text find the same one.
  std::string ToText() const;
  friend bool operator==(const MeasuredSpeeds&, const MeasuredSpeeds&) = default;
};

// Reads ToText's. InvalidArgument where the text is no such thing, or a number is not above 0.
absl::StatusOr<MeasuredSpeeds> ParseMeasuredSpeeds(absl::string_view text, int layers);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_REPLANNING_MEASURED_SPEEDS_H_
