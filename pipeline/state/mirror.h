#ifndef SLUICE_PIPELINE_STATE_MIRROR_H_
#define SLUICE_PIPELINE_STATE_MIRROR_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "pipeline/state/rank_state.h"

namespace sluice {

// Ranks that mirror each other (RunRequest::mirror): rank r keeps the trained state of rank
// RunPlan::MirroredRank(r), RankState::mirrored(). It gets that state once, and then the gradients
// of each step, and makes the same update with them: so both have the same bits after every step,
// and no weights travel. Where ranks do not mirror each other, these functions do nothing.
//
// `pipeline` joins the ranks of the pipeline, by memory of the state's device. All of them call
// together; what travels goes in pieces straight to its place, each of which may take `timeout`.

// Brings each rank's trained weights and optimizer state to the rank that mirrors it. To be called
// once the state is there, before the first step.
absl::Status FillMirror(const RankState& state, Communicator& pipeline, absl::Duration timeout);

// Brings each rank's gradients of a step, once they are complete, to the rank that mirrors it,
// whose next UpdateWeights uses them. To be called before the ranks agree on the step: once they
// have, no gradient is on one rank alone. They stay there until the next step's arrive, for which
// all ranks have to be in that step, and so have made this one's update. So where a rank is lost
// after the ranks have agreed, those that have not made the update yet can still make it.
absl::Status MirrorGradients(const RankState& state, Communicator& pipeline,
                             absl::Duration timeout);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_STATE_MIRROR_H_
