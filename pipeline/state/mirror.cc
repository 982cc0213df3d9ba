#include "pipeline/state/mirror.h"

#include <utility>
#include <vector>

#include "pipeline/state/tensor_pieces.h"

namespace sluice {
namespace {

bool IsUpdated(const ParameterView& view) { return !view.decl->frozen && !view.shared; }

// In an order that owner and mirror share.
TensorPieces StateOf(const std::vector<ParameterView>& parameters) {
  TensorPieces pieces;
  for (const ParameterView& view : parameters) {
    if (!IsUpdated(view)) continue;
    pieces.Add(view.weight, view.decl->bytes());
    pieces.Add(view.low_halves.values, view.decl->low_half_bytes());
    for (float* moment : {view.moment1, view.moment2})
      pieces.Add(moment, view.elements * SizeOf(DType::kFloat32));
  }
  return pieces;
}

TensorPieces GradientsOf(const std::vector<ParameterView>& parameters) {
  TensorPieces pieces;
  for (const ParameterView& view : parameters) {
    if (IsUpdated(view)) pieces.Add(view.gradient, view.elements * SizeOf(DType::kFloat32));
  }
  return pieces;
}

// Sends `own` to this rank's mirror, and receives `mirrored` from the rank that it mirrors.
absl::Status PassToMirror(const RankState& state, Communicator& pipeline, TensorPieces own,
                          TensorPieces mirrored, absl::Duration timeout) {
  const RunPlan& plan = state.plan();
  return PassOn(pipeline, {.peer = plan.MirrorOf(state.rank()), .pieces = std::move(own)},
                {.peer = plan.MirroredRank(state.rank()), .pieces = std::move(mirrored)}, timeout);
}

}  // namespace

absl::Status FillMirror(const RankState& state, Communicator& pipeline, absl::Duration timeout) {
  if (!state.plan().mirrors()) return absl::OkStatus();
  return PassToMirror(state, pipeline, StateOf(state.parameters()), StateOf(state.mirrored()),
                      timeout);
}

absl::Status MirrorGradients(const RankState& state, Communicator& pipeline,
                             absl::Duration timeout) {
  if (!state.plan().mirrors()) return absl::OkStatus();
  return PassToMirror(state, pipeline, GradientsOf(state.parameters()),
                      GradientsOf(state.mirrored()), timeout);
}

}  // namespace sluice
