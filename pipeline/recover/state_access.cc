#include "pipeline/recover/state_access.h"

#include <cstddef>

namespace sluice {

StateAccess::StateAccess(RankState& state)
    : reader_(&state.device(), state.stream()), writer_(&state.device(), state.stream()) {
  const std::vector<int> stored = StoredIndices(state.plan());
  for (const ParameterView& view : state.parameters()) {
    if (!view.shared) views_[stored[static_cast<size_t>(view.global_index)]].push_back(&view);
  }
  for (const ParameterView& view : state.mirrored())
    mirrored_[stored[static_cast<size_t>(view.global_index)]].push_back(&view);
}

const float* StateAccess::Read(const StateRange& range, int64_t first, int64_t count) {
  const bool own = views_.contains(range.parameter);
  const ParameterView& view = *(own ? views_ : mirrored_)[range.parameter].front();
  return ReadState(view, range.kind, first, count, &reader_);
}

void StateAccess::Write(const StateRange& range, const float* values, int64_t first,
                        int64_t count) {
  for (const ParameterView* const view : views_[range.parameter]) {
    if (range.kind == StateKind::kWeight) {
      writer_.Write(view->decl->dtype, view->weight, view->low_halves, values, first, count);
    } else {
      float* const moment = range.kind == StateKind::kMoment1 ? view->moment1 : view->moment2;
      writer_.Write(DType::kFloat32, moment, {}, values, first - view->first, count);
    }
  }
}

}  // namespace sluice
