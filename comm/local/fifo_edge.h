#ifndef SLUICE_COMM_LOCAL_FIFO_EDGE_H_
#define SLUICE_COMM_LOCAL_FIFO_EDGE_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "models/device/instant.h"

namespace sluice {

// One directed edge between two threads of a process. One thread sends, one receives, any thread
// aborts.
class FifoEdge {
 public:
  FifoEdge(int from, int to, size_t capacity, absl::Duration spin);

  absl::Status PostSend(const void* data, size_t bytes, Ticket* ticket);
  absl::Status PostReceive(void* data, size_t bytes, Ticket* ticket);
  // Until message `ticket` has been copied.
  absl::Status Wait(Ticket ticket, Instant deadline);
  // Returns once no memory of messages is touched any more, as does a Wait that fails.
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

  absl::Status Post(Queue& queue, const Half& half, Ticket* ticket);
  // Copies every message that has both its halves; `lock` is held before and after, not while
  // copying. One thread at a time copies, so messages complete in order; the other one leaves its
  // half in the queue for it.
  void CopyMatched(std::unique_lock<std::mutex>& lock);
  void AwaitCopy(std::unique_lock<std::mutex>& lock);
  bool Finished(Ticket ticket) const;

  const int from_;
  const int to_;
  const size_t capacity_;
  const absl::Duration spin_;
  // A std::mutex, not absl's: the thread sanitizer sees through it although the library was built
  // without.
  std::mutex mutex_;  // guards what follows, up to `failure_`
  std::condition_variable changed_;
  Queue sends_;
  Queue receives_;
  bool copying_ = false;
  absl::Status failure_;
  // Messages copied so far. Written with release under mutex_ after the copy, read with acquire by
  // waiters that spin without it: what was copied happens before what the waiter does next.
  std::atomic<uint64_t> completed_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace sluice

#endif  // SLUICE_COMM_LOCAL_FIFO_EDGE_H_
