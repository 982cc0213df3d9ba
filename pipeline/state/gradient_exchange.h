#ifndef SLUICE_PIPELINE_STATE_GRADIENT_EXCHANGE_H_
#define SLUICE_PIPELINE_STATE_GRADIENT_EXCHANGE_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "pipeline/state/rank_state.h"

namespace sluice {

// What ranks tell each other of a step's gradients before the weights change. Messages use the
// arena's step region, which is free between steps. Both ends of a pair add the same two numbers,
// so both get the same bits.

// Gives every copy of a parameter, where the timetable has two copies of the model, the sum of both
// copies' gradients. To be called before ExchangeTiedGradients.
absl::Status ExchangeCopyGradients(RankState& state, Communicator& communicator,
                                   absl::Duration timeout);

// Gives every parameter that is tied to another, and that other one, the sum of both gradients,
// whichever ranks of its pipeline hold them; `communicator` joins these. Gradients, or slices of
// them, have been summed over each RankGroup.
absl::Status ExchangeTiedGradients(RankState& state, Communicator& communicator,
                                   absl::Duration timeout);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_STATE_GRADIENT_EXCHANGE_H_
