#ifndef SLUICE_COMM_DEVICE_EDGE_H_
#define SLUICE_COMM_DEVICE_EDGE_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "comm/communicator.h"
#include "models/device/device.h"
#include "models/device/instant.h"

namespace sluice {

// One directed edge between two threads of a process whose ranks queue their work on devices. A
// message is a copy that is queued, once both halves are posted, on a stream of the edge's own,
// between what the two ranks had queued before they posted and what they queue after they waited.
class DeviceEdge {
 public:
  // Which end of the edge calls.
  enum End : uint8_t { kSender, kReceiver, kEnds };
  // A rank's queue.
  struct Queue {
    Device* device = nullptr;
    Stream stream;
  };

  // `capacity`: messages that an end may have posted and not yet waited for.
  DeviceEdge(int from, int to, size_t capacity);

  // `data`: the sender's, which is only read, or the receiver's.
  absl::Status Post(End end, const Queue& queue, void* data, size_t bytes, Ticket* ticket);
  // Blocks until both halves of message `ticket` are posted; what is queued on `queue` from then on
  // is done after the copy. Every ticket is to be waited for, in order.
  absl::Status Wait(End end, const Queue& queue, Ticket ticket, Instant deadline);
  // Copies already queued are still done; memory is given back after them (see DeviceMemory).
  void Abort(const absl::Status& status);

 private:
  struct Half {
    void* data = nullptr;
    size_t bytes = 0;
    Event ready;  // the end of what the rank had queued when it posted
  };
  // One end's posts and waits.
  struct Side {
    std::vector<Half> halves;  // a ring
    uint64_t posted = 0;
    uint64_t waited = 0;
  };

  absl::Status PostLocked(Side& side, const Queue& queue, void* data, size_t bytes);
  absl::Status QueueCopies();
  absl::Status QueueCopy(const Half& send, const Half& receive);

  const int from_;
  const int to_;
  const size_t capacity_;
  std::mutex mutex_;  // guards all that follows
  std::condition_variable changed_;
  Side sides_[kEnds];
  uint64_t copied_ = 0;      // copies queued so far
  std::vector<Event> done_;  // a ring: the ends of copies
  Queue copies_;             // where copies are queued; the receiver's device
  absl::Status failure_;
};

}  // namespace sluice

#endif  // SLUICE_COMM_DEVICE_EDGE_H_
