#ifndef SLUICE_PIPELINE_RUN_BIT_FLIP_H_
#define SLUICE_PIPELINE_RUN_BIT_FLIP_H_

#include "models/layers/layer.h"
#include "pipeline/compile/plan/program.h"
#include "pipeline/state/rank_state.h"

namespace sluice {

// Failpoints (models/failpoints) that stand for the hardware of one rank which computes wrong:
// where one fails, the lowest bit of a value that the rank has computed is flipped. In runs with
// audits, while they train:
//   rankR-forward.flip    an element of a layer's output (the loss), after each call
//   rankR-input.flip      an element of a layer's input gradient
//   rankR-gradient.flip   an element of a layer's weight gradients
//   rankR-received.flip   an element of a layer's input, before the call, unless it is a token
//   rankR-memory.flip     an element of a weight, before each pass: nobody has written to it
//   rankR-update.flip     likewise, after each update, as a part of what that has written
// A fault of kind `fail` happens once, one of kind `vanish` from then on. R is the rank that
// computes, whosever work it is.
void MaybeFlipResult(const RankState& state, Step step, const LayerDecl& decl,
                     const LayerCall& call);
void MaybeFlipInput(const RankState& state, Step step, const LayerDecl& decl,
                    const LayerCall& call);
// `what`: "memory" or "update".
void MaybeFlipWeight(const RankState& state, const char* what, void* weight);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_BIT_FLIP_H_
