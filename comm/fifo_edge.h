#ifndef SLUICE_COMM_FIFO_EDGE_H_
#define SLUICE_COMM_FIFO_EDGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "comm/communicator.h"

namespace sluice {

// One directed edge between two threads of a process. One thread sends, one receives, any thread
// aborts.
class FifoEdge {
 public:
  FifoEdge(int from, int to, size_t capacity, absl::Duration spin);

  absl::Status PostSend(const void* data, size_t bytes, Ticket* ticket);
  absl::Status PostReceive(void* data, size_t bytes, Ticket* ticket);
  // Until message `ticket` has been copied.
  absl::Status Wait(Ticket ticket, absl::Time deadline);
  void Abort(const absl::Status& status);

 private:
  struct Half {
    const void* source = nullptr;
    void* target = nullptr;
    size_t bytes = 0;
  };
  // A ring of posts that have not been copied yet.
  struct Queue {
    std::vector<Half> slots;
    uint64_t posted = 0;
  };

  absl::Status Post(Queue& queue, const Half& half, Ticket* ticket) ABSL_LOCKS_EXCLUDED(mutex_);
  // Copies every message that has both its halves. One thread at a time copies, so messages
  // complete in order; the other one leaves its half in the queue for it.
  void CopyMatched() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Finished(Ticket ticket) const;

  const int from_;
  const int to_;
  const absl::Duration spin_;
  absl::Mutex mutex_;
  Queue sends_ ABSL_GUARDED_BY(mutex_);
  Queue receives_ ABSL_GUARDED_BY(mutex_);
  bool copying_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  // Messages copied so far. Written with release under mutex_ after the copy, read with acquire by
  // waiters that spin without it: what was copied happens before what the waiter does next.
  std::atomic<uint64_t> completed_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace sluice

#endif  // SLUICE_COMM_FIFO_EDGE_H_
