#ifndef SLUICE_PIPELINE_TRAIN_BASE_HASH_H_
#define SLUICE_PIPELINE_TRAIN_BASE_HASH_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "pipeline/state/rank_state.h"

namespace sluice {

// Of what is frozen: the sum, modulo 2^64, of the XXH3-64 of each tensor's values as fp32, keyed by
// its name, in 16 hexadecimal digits. Every rank hashes what it has, so no weights are sent, and the
// answer, the same on all ranks, does not depend on who has what. Called by every rank of `world`.
absl::StatusOr<std::string> HashBase(const RankState& state, Communicator& world,
                                     absl::Duration timeout);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_BASE_HASH_H_
