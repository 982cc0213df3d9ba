#include "pipeline/state/state_gather.h"

#include <cstddef>

namespace sluice {

HeldTensor TensorOf(const ParameterView& view, StateKind kind) {
  switch (kind) {
    case StateKind::kWeight:
      return {.dtype = view.decl->dtype, .data = view.weight, .low_halves = view.low_halves};
    case StateKind::kMoment1:
      return {.data = view.moment1};
    default:
      return {.data = view.moment2};
  }
}

const float* ReadState(const ParameterView& view, StateKind kind, int64_t first, int64_t count,
                       HostReader* reader) {
  // All weights are there, but moments only of the rank's slice.
  const int64_t begin = kind == StateKind::kWeight ? 0 : view.first;
  return reader->Read(TensorOf(view, kind), first - begin, count);
}

StateGather::StateGather(const RankState& state, absl::Duration timeout, Communicator& world)
    : plan_(state.plan()),
      timeout_(timeout),
      world_(world),
      rounds_(&world, timeout),
      pieces_(&world, &rounds_),
      reader_(&state.device(), state.stream()) {
  const std::vector<int> rank_of_layer = RankOfLayers(plan_);
  for (size_t layer = 0; layer < plan_.layers.size(); ++layer)
    rank_of_.insert(rank_of_.end(), plan_.layers[layer].parameters.size(), rank_of_layer[layer]);
  for (const ParameterDecl* parameter : CanonicalParameters(plan_))
    split_.push_back(parameter->is_split());
  views_.resize(rank_of_.size());
  for (const ParameterView& view : state.parameters()) {
    // Copies of the model are equal; the first stands for them.
    if (view.model_copy == 0) views_[static_cast<size_t>(view.global_index)] = &view;
  }
}

absl::Status StateGather::Gather(StateKind kind, int parameter, const Sink& sink) {
  const auto index = static_cast<size_t>(parameter);
  const std::vector<int64_t>& bounds = plan_.shards[index];
  // Every rank of a group has all weights, and of the optimizer's state, which the low halves of
  // split weights belong to, what has not been divided.
  const int first = rank_of_[index];
  const RankGroup group = plan_.GroupOf(first);
  const bool state = kind != StateKind::kWeight || split_[index];
  const bool sliced = state && plan_.zero(first) >= 1;
  const auto use = [&sink](const float* values, int64_t /*first*/, int64_t size) {
    return sink(values, size);
  };
  absl::Status status = absl::OkStatus();
  for (int k = 0; k < (sliced ? group.size : 1) && status.ok(); ++k) {
    const auto at = static_cast<size_t>(k);
    const int64_t count = sliced ? bounds[at + 1] - bounds[at] : bounds.back();
    const int owner = group.rank(k);
    if (owner == world_.rank()) {
      const ParameterView& view = *views_[index];
      const int64_t own = sliced ? bounds[at] : 0;
      const auto read = [&](int64_t begin, int64_t size) {
        return ReadState(view, kind, own + begin, size, &reader_);
      };
      status = owner == 0 ? pieces_.ForEach(count, read, use) : pieces_.Send(0, count, read);
      if (status.ok()) status = reader_.Check(timeout_);
    } else if (world_.rank() == 0) {
      status = pieces_.Receive(owner, count, use);
    }
  }
  return status;
}

}  // namespace sluice
