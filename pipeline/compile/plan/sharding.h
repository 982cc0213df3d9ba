#ifndef SLUICE_PIPELINE_COMPILE_PLAN_SHARDING_H_
#define SLUICE_PIPELINE_COMPILE_PLAN_SHARDING_H_

#include <cstdint>
#include <vector>

#include "models/layers/layer.h"

namespace sluice {

// Parameters are cut between the ranks of a group at multiples of this many elements only. Sums of squares are
// added up block by block too, so they have the same bits whoever computes which blocks.
inline constexpr int64_t kShardBlock = 1024;

// [canonical parameter]: the bounds of its slices, one more than there are slices; slice k has the elements from bounds[k]
// up to bounds[k + 1].
using ShardBounds = std::vector<std::vector<int64_t>>;

// Cuts every parameter into as equal slices as whole blocks allow, one for each of its layer's
// `slices_of_layer`, and gives the blocks that are left over to the ranks that own least so
// far for the same rank of the pipeline (`rank_of_layer`). A tied parameter is cut like the one that
// it equals, so that their slices meet on one rank of the group, unless the two have different
// numbers of slices. Deterministic.
ShardBounds CutParameters(const std::vector<LayerDecl>& layers,
                          const std::vector<int>& rank_of_layer,
                          const std::vector<int>& slices_of_layer);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_PLAN_SHARDING_H_
