#include "pipeline/train/weights_hash.h"

#include "pipeline/state/state_gather.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {

absl::StatusOr<uint64_t> HashWeights(const RankState& state, Communicator& world,
                                     absl::Duration timeout) {
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  StateGather gather(state, timeout, world);
  // Messages use the memory of `gather` until then.
  const auto ended = [&world](const absl::Status& status) {
    world.Abort(status);
    return status;
  };
  const auto parameters = static_cast<int>(CanonicalParameters(state.plan()).size());
  for (int parameter = 0; parameter < parameters; ++parameter) {
    absl::Status status =
        gather.Gather(StateKind::kWeight, parameter, [&hash](const float* values, int64_t count) {
          XXH3_64bits_update(&hash, values, static_cast<size_t>(count) * sizeof(float));
          return absl::OkStatus();
        });
    if (!status.ok()) return ended(status);
  }
  if (absl::Status status = gather.Finish(); !status.ok()) return ended(status);
  return world.rank() == 0 ? XXH3_64bits_digest(&hash) : 0;
}

}  // namespace sluice
