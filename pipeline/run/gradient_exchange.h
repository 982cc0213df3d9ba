#ifndef SLUICE_PIPELINE_RUN_GRADIENT_EXCHANGE_H_
#define SLUICE_PIPELINE_RUN_GRADIENT_EXCHANGE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "pipeline/run/rank_state.h"

namespace sluice {

// What ranks tell each other of a step's gradients before the weights change. Messages use the
// arena's step region, which is free between steps. Both ends of a pair add the same two numbers,
// so both get the same bits.

// Gives every copy of a parameter, where the timetable has two copies of the model, the sum of both
// copies' gradients. Before the next.
absl::Status ExchangeReplicaGradients(RankState& state, Communicator& communicator,
                                      absl::Duration timeout);

// Gives every parameter that is tied to another, and that other one, the sum of both gradients,
// whichever ranks of its pipeline, whose `communicator` is, hold them. Gradients have been summed
// over the replicas, or slices of them.
absl::Status ExchangeTiedGradients(RankState& state, Communicator& communicator,
                                   absl::Duration timeout);

// The bytes of the step region that rank `world_rank` of the world needs for it.
int64_t ExchangedBytes(const RunPlan& plan, int world_rank);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_GRADIENT_EXCHANGE_H_
