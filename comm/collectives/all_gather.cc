#include <cstddef>
#include <vector>

#include "comm/collectives/collectives.h"

namespace sluice {
namespace {

// Messages of one collective that may be under way on an edge.
constexpr size_t kWindow = 4;

size_t Index(int64_t value) { return static_cast<size_t>(value); }

// Passes slices round, a few arrays at a time.
class SliceGather {
 public:
  SliceGather(Communicator& group, absl::Span<const SlicedBytes> arrays, absl::Duration timeout)
      : group_(group),
        arrays_(arrays),
        timeout_(timeout),
        sent_(kWindow * Index(group.size())),
        received_(sent_.size()) {}

  absl::Status Run() {
    absl::Status status = absl::OkStatus();
    for (size_t i = 0; i < arrays_.size() + kWindow && status.ok(); ++i) {
      if (i >= kWindow) status = Wait(i - kWindow);
      if (i < arrays_.size() && status.ok()) status = Post(i);
    }
    return status;
  }

 private:
  size_t Bytes(size_t array, int rank) const {
    const SlicedBytes& of = arrays_[array];
    return Index((of.bounds[Index(rank) + 1] - of.bounds[Index(rank)]) * of.element_bytes);
  }
  void* Slice(size_t array, int rank) const {
    const SlicedBytes& of = arrays_[array];
    return static_cast<std::byte*>(of.data) + of.bounds[Index(rank)] * of.element_bytes;
  }
  size_t Slot(size_t array, int rank) const {
    return array % kWindow * Index(group_.size()) + Index(rank);
  }
  bool Sends(size_t array, int to) const {
    return to != group_.rank() && Bytes(array, group_.rank()) > 0;
  }
  bool Receives(size_t array, int from) const {
    return from != group_.rank() && Bytes(array, from) > 0;
  }

  absl::Status Post(size_t array) {
    const int self = group_.rank();
    absl::Status status = absl::OkStatus();
    for (int peer = 0; peer < group_.size() && status.ok(); ++peer) {
      if (Receives(array, peer)) {
        status = group_.PostReceive(peer, Slice(array, peer), Bytes(array, peer),
                                    &received_[Slot(array, peer)]);
      }
      if (Sends(array, peer) && status.ok()) {
        status = group_.PostSend(peer, Slice(array, self), Bytes(array, self),
                                 &sent_[Slot(array, peer)]);
      }
    }
    return status;
  }

  absl::Status Wait(size_t array) {
    absl::Status status = absl::OkStatus();
    if (array >= arrays_.size()) return status;
    for (int peer = 0; peer < group_.size() && status.ok(); ++peer) {
      if (Receives(array, peer))
        status = group_.WaitReceive(peer, received_[Slot(array, peer)], Instant::Now() + timeout_);
      if (Sends(array, peer) && status.ok())
        status = group_.WaitSend(peer, sent_[Slot(array, peer)], Instant::Now() + timeout_);
    }
    return status;
  }

  Communicator& group_;
  const absl::Span<const SlicedBytes> arrays_;
  const absl::Duration timeout_;
  std::vector<Ticket> sent_;  // [array % kWindow][peer]
  std::vector<Ticket> received_;
};

}  // namespace

absl::Status AllGatherSlices(Communicator& group, absl::Span<const SlicedBytes> arrays,
                             absl::Duration timeout) {
  return SliceGather(group, arrays, timeout).Run();
}

}  // namespace sluice
