#include "pipeline/run/state_gather.h"

#include <algorithm>
#include <cstddef>

#include "pipeline/run/state_pieces.h"

namespace sluice {

StateGather::StateGather(const RankState& state, absl::Duration timeout, Communicator& world)
    : plan_(state.plan()),
      world_(world),
      rounds_(&world, timeout),
      readers_(kStatePiecesUnderWay, HostReader(&state.device(), state.stream())) {
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
  if (world_.rank() == 0 && world_.size() > 1) pieces_.resize(kStatePiecesUnderWay * kStatePiece);
}

StateGather::Values StateGather::Own(StateKind kind, int parameter, int64_t count) const {
  const ParameterView& view = *views_[static_cast<size_t>(parameter)];
  switch (kind) {
    case StateKind::kWeight:
      return {.tensor = {view.decl->dtype, view.weight, view.low_halves},
              .first = view.decl->is_split() ? view.first : 0,
              .count = count};
    case StateKind::kMoment1:
      return {.tensor = {.data = view.moment1}, .count = count};
    default:
      return {.tensor = {.data = view.moment2}, .count = count};
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
  absl::Status status = absl::OkStatus();
  for (int k = 0; k < (sliced ? group.size : 1) && status.ok(); ++k) {
    const auto at = static_cast<size_t>(k);
    const int64_t count = sliced ? bounds[at + 1] - bounds[at] : bounds.back();
    const int owner = group.rank(k);
    if (owner == world_.rank()) {
      const Values own = Own(kind, parameter, count);
      status = owner == 0 ? Give(own, sink) : Send(own);
    } else if (world_.rank() == 0) {
      status = Receive(owner, count, sink);
    }
  }
  return status;
}

absl::Status StateGather::Give(const Values& values, const Sink& sink) {
  absl::Status status = absl::OkStatus();
  for (int64_t first = 0; first < values.count && status.ok(); first += kStatePiece) {
    const int64_t size = std::min(kStatePiece, values.count - first);
    status = sink(readers_.front().Read(values.tensor, values.first + first, size), size);
    if (status.ok()) status = rounds_.Tick();
  }
  return status;
}

absl::Status StateGather::Send(const Values& values) {
  Ticket tickets[kStatePiecesUnderWay] = {};
  absl::Status status = absl::OkStatus();
  const auto wait = [&](int64_t piece) {
    return rounds_.WaitSend(0, tickets[piece % kStatePiecesUnderWay]);
  };
  const int64_t pieces = (values.count + kStatePiece - 1) / kStatePiece;
  for (int64_t piece = 0; piece < pieces && status.ok(); ++piece) {
    if (piece >= kStatePiecesUnderWay) status = wait(piece - kStatePiecesUnderWay);
    const int64_t first = piece * kStatePiece;
    if (status.ok()) {
      const int64_t size = std::min(kStatePiece, values.count - first);
      HostReader& reader = readers_[static_cast<size_t>(piece % kStatePiecesUnderWay)];
      status = world_.PostSend(0, reader.Read(values.tensor, values.first + first, size),
                               StateBytes(size), &tickets[piece % kStatePiecesUnderWay]);
    }
  }
  for (int64_t piece = std::max<int64_t>(pieces - kStatePiecesUnderWay, 0);
       piece < pieces && status.ok(); ++piece)
    status = wait(piece);
  return status;
}

absl::Status StateGather::Receive(int from, int64_t count, const Sink& sink) {
  Ticket tickets[kStatePiecesUnderWay] = {};
  const auto place = [&](int64_t piece) {
    return pieces_.data() + piece % kStatePiecesUnderWay * kStatePiece;
  };
  const auto size = [&](int64_t piece) {
    return std::min(kStatePiece, count - piece * kStatePiece);
  };
  const auto post = [&](int64_t piece) {
    return world_.PostReceive(from, place(piece), StateBytes(size(piece)),
                              &tickets[piece % kStatePiecesUnderWay]);
  };
  const int64_t pieces = (count + kStatePiece - 1) / kStatePiece;
  absl::Status status = absl::OkStatus();
  for (int64_t piece = 0; piece < std::min(pieces, kStatePiecesUnderWay) && status.ok(); ++piece)
    status = post(piece);
  for (int64_t piece = 0; piece < pieces && status.ok(); ++piece) {
    status = rounds_.WaitReceive(from, tickets[piece % kStatePiecesUnderWay]);
    if (status.ok()) status = sink(place(piece), size(piece));
    if (status.ok()) status = rounds_.Tick();
    if (status.ok() && piece + kStatePiecesUnderWay < pieces)
      status = post(piece + kStatePiecesUnderWay);
  }
  return status;
}

}  // namespace sluice
