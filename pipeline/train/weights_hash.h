#ifndef SLUICE_PIPELINE_TRAIN_WEIGHTS_HASH_H_
#define SLUICE_PIPELINE_TRAIN_WEIGHTS_HASH_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "pipeline/state/rank_state.h"

namespace sluice {

// XXH3-64 over the bytes of every weight in canonical order: equal exactly when all weights are, to
// the bit. Called by every rank of `world`; rank 0 gets the hash, the others 0. A
// rank that gets an error has aborted with it.
absl::StatusOr<uint64_t> HashWeights(const RankState& state, Communicator& world,
                                     absl::Duration timeout);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_WEIGHTS_HASH_H_
