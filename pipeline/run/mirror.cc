#include "pipeline/run/mirror.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice {
namespace {

// A piece of a tensor: few enough bytes for one message to arrive in time over any link, and enough
// for its cost not to count.
constexpr size_t kPiece = size_t{4} << 20;
// Pieces under way each way. An edge of the run carries more (EdgeCapacity).
constexpr size_t kUnderWay = 4;

struct Bytes {
  std::byte* data = nullptr;
  size_t size = 0;
};

class Pieces {
 public:
  void Add(void* tensor, int64_t bytes) {
    if (tensor == nullptr) return;
    auto* data = static_cast<std::byte*>(tensor);
    for (auto left = static_cast<size_t>(bytes); left > 0;) {
      const size_t size = std::min(left, kPiece);
      pieces_.push_back({.data = data, .size = size});
      data += size;
      left -= size;
    }
  }
  size_t count() const { return pieces_.size(); }
  const Bytes& operator[](size_t i) const { return pieces_[i]; }

 private:
  std::vector<Bytes> pieces_;
};

bool IsUpdated(const ParameterView& view) { return !view.decl->frozen && !view.shared; }

// In an order that owner and mirror share.
Pieces StateOf(const std::vector<ParameterView>& parameters) {
  Pieces pieces;
  for (const ParameterView& view : parameters) {
    if (!IsUpdated(view)) continue;
    pieces.Add(view.weight, view.decl->bytes());
    pieces.Add(view.low_halves.values, view.decl->low_half_bytes());
    for (float* moment : {view.moment1, view.moment2})
      pieces.Add(moment, view.elements * SizeOf(DType::kFloat32));
  }
  return pieces;
}

Pieces GradientsOf(const std::vector<ParameterView>& parameters) {
  Pieces pieces;
  for (const ParameterView& view : parameters) {
    if (IsUpdated(view)) pieces.Add(view.gradient, view.elements * SizeOf(DType::kFloat32));
  }
  return pieces;
}

// Messages one way between this rank and `peer`, of which kUnderWay are posted at a time.
class Flow {
 public:
  Flow(Communicator* pipeline, int peer, Pieces pieces)
      : pipeline_(*pipeline), peer_(peer), pieces_(std::move(pieces)), tickets_(pieces_.count()) {}

  size_t count() const { return pieces_.count(); }
  absl::Status Send(size_t i) {
    return i < count() ? pipeline_.PostSend(peer_, pieces_[i].data, pieces_[i].size, &tickets_[i])
                       : absl::OkStatus();
  }
  absl::Status Receive(size_t i) {
    return i < count()
               ? pipeline_.PostReceive(peer_, pieces_[i].data, pieces_[i].size, &tickets_[i])
               : absl::OkStatus();
  }
  absl::Status WaitSend(size_t i, absl::Duration timeout) {
    return i < count() ? pipeline_.WaitSend(peer_, tickets_[i], Instant::Now() + timeout)
                       : absl::OkStatus();
  }
  absl::Status WaitReceive(size_t i, absl::Duration timeout) {
    return i < count() ? pipeline_.WaitReceive(peer_, tickets_[i], Instant::Now() + timeout)
                       : absl::OkStatus();
  }

 private:
  Communicator& pipeline_;
  const int peer_;
  const Pieces pieces_;
  std::vector<Ticket> tickets_;
};

// Sends `own` to this rank's mirror, and receives `mirrored` from the rank that it mirrors. Ranks
// stand in a ring. No one waits for ever: of all ranks, one that has got least far waits for a
// piece that its neighbour, which is at least as far, has posted.
absl::Status PassOn(const RankState& state, Communicator& pipeline, Pieces own, Pieces mirrored,
                    absl::Duration timeout) {
  const RunPlan& plan = state.plan();
  Flow out(&pipeline, plan.MirrorOf(state.rank()), std::move(own));
  Flow in(&pipeline, plan.MirroredRank(state.rank()), std::move(mirrored));
  absl::Status status = absl::OkStatus();
  const auto post = [&](size_t i) {
    if (status.ok()) status = in.Receive(i);
    if (status.ok()) status = out.Send(i);
  };
  for (size_t i = 0; i < kUnderWay; ++i) post(i);
  for (size_t i = 0; i < std::max(in.count(), out.count()) && status.ok(); ++i) {
    status = in.WaitReceive(i, timeout);
    if (status.ok()) status = out.WaitSend(i, timeout);
    post(i + kUnderWay);
  }
  return status;
}

}  // namespace

absl::Status FillMirror(const RankState& state, Communicator& pipeline, absl::Duration timeout) {
  if (!state.plan().mirrors()) return absl::OkStatus();
  return PassOn(state, pipeline, StateOf(state.parameters()), StateOf(state.mirrored()), timeout);
}

absl::Status MirrorGradients(const RankState& state, Communicator& pipeline,
                             absl::Duration timeout) {
  if (!state.plan().mirrors()) return absl::OkStatus();
  return PassOn(state, pipeline, GradientsOf(state.parameters()), GradientsOf(state.mirrored()),
                timeout);
}

}  // namespace sluice
