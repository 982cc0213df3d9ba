#include "pipeline/state/tensor_pieces.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

// A piece of a tensor: few enough bytes for one message to arrive in time over any link, and enough
// for its cost not to count.
constexpr size_t kPiece = size_t{4} << 20;
// Pieces under way each way. An edge of the run carries more (EdgeCapacity).
constexpr size_t kUnderWay = 4;

// Messages one way between this rank and its peer, of which kUnderWay are posted at a time.
class Flow {
 public:
  Flow(Communicator* group, TensorsOfPeer tensors)
      : group_(*group), tensors_(std::move(tensors)), tickets_(count()) {}

  size_t count() const { return tensors_.pieces.count(); }
  absl::Status Send(size_t i) {
    return i < count() ? group_.PostSend(tensors_.peer, tensors_.pieces[i].data,
                                         tensors_.pieces[i].size, &tickets_[i])
                       : absl::OkStatus();
  }
  absl::Status Receive(size_t i) {
    return i < count() ? group_.PostReceive(tensors_.peer, tensors_.pieces[i].data,
                                            tensors_.pieces[i].size, &tickets_[i])
                       : absl::OkStatus();
  }
  absl::Status WaitSend(size_t i, absl::Duration timeout) {
    return i < count() ? group_.WaitSend(tensors_.peer, tickets_[i], Instant::Now() + timeout)
                       : absl::OkStatus();
  }
  absl::Status WaitReceive(size_t i, absl::Duration timeout) {
    return i < count() ? group_.WaitReceive(tensors_.peer, tickets_[i], Instant::Now() + timeout)
                       : absl::OkStatus();
  }

 private:
  Communicator& group_;
  const TensorsOfPeer tensors_;
  std::vector<Ticket> tickets_;
};

}  // namespace

void TensorPieces::Add(void* tensor, int64_t bytes) {
  if (tensor == nullptr) return;
  auto* data = static_cast<std::byte*>(tensor);
  for (auto left = static_cast<size_t>(bytes); left > 0;) {
    const size_t size = std::min(left, kPiece);
    pieces_.push_back({.data = data, .size = size});
    data += size;
    left -= size;
  }
}

absl::Status PassOn(Communicator& group, TensorsOfPeer out, TensorsOfPeer in,
                    absl::Duration timeout) {
  Flow sent(&group, std::move(out));
  Flow received(&group, std::move(in));
  absl::Status status = absl::OkStatus();
  const auto post = [&](size_t i) {
    if (status.ok()) status = received.Receive(i);
    if (status.ok()) status = sent.Send(i);
  };
  for (size_t i = 0; i < kUnderWay; ++i) post(i);
  for (size_t i = 0; i < std::max(received.count(), sent.count()) && status.ok(); ++i) {
    status = received.WaitReceive(i, timeout);
    if (status.ok()) status = sent.WaitSend(i, timeout);
    post(i + kUnderWay);
  }
  return status;
}

}  // namespace sluice
