#ifndef SLUICE_COMM_MESSAGE_QUEUE_H_
#define SLUICE_COMM_MESSAGE_QUEUE_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "models/device/instant.h"

namespace sluice {

enum class Direction : uint8_t { kSend, kReceive };

// Messages of the program that runs, and those of all-gathers and barriers, which may overtake them
// in the program of one rank and not of another; and both once more for Communicator::background:
// four FIFO edges for each ordered pair of ranks.
inline constexpr int kProgramChannel = 0;
inline constexpr int kCollectiveChannel = 1;
inline constexpr int kBackgroundChannel = 2;
inline constexpr int kBackgroundCollectiveChannel = 3;
inline constexpr int kChannels = 4;

// Half a message: a send or a receive, as the rank's thread hands it to the transport's thread.
struct Post {
  Direction direction = Direction::kSend;
  int channel = kProgramChannel;
  int peer = 0;
  char* data = nullptr;  // only read where direction is kSend
  size_t bytes = 0;
  Ticket ticket = 0;
};

// The error of a message whose two halves differ in size; the same words under every transport.
absl::Status DifferentSizes(Ticket ticket, int from, int to, size_t sent, size_t expected);
absl::Status TooManyOutstanding(int from, int to, uint64_t outstanding);

// What a transport knows about why a peer is late, for errors.
struct PeerHealth {
  std::string words;  // "" or " (...)"
  int suspect = 0;    // the rank that is probably lost: the peer, or one that it waits for
};

// The queues between a rank's threads, which post messages and wait for them, and its transport's
// thread, which takes the posts and completes them. No two threads of a rank use the same channel at
// the same time. Knows nothing of wires. Messages of a rank to itself are copied here.
class MessageQueue {
 public:
  static constexpr int kNobody = -1;

  struct Options {
    int rank = 0;
    int size = 1;
    size_t capacity = 1024;  // posts that may be outstanding on an edge
    absl::Duration spin;     // for which a wait spins before it sleeps
    // Called after a post or an abort: makes the transport's thread call Take().
    std::function<void()> wake;
    // What the transport knows about a peer that is late.
    std::function<PeerHealth(int peer)> health;
  };
  explicit MessageQueue(Options options);
  MessageQueue(const MessageQueue&) = delete;
  MessageQueue& operator=(const MessageQueue&) = delete;

  // The rank's side.
  // Queues a post. ResourceExhausted where the edge is full.
  absl::Status Add(Post post, Ticket* ticket);
  absl::Status Wait(Direction direction, int channel, int peer, Ticket ticket, Instant deadline);
  // Returns once the transport's thread touches no memory of posts any more.
  void Abort(const absl::Status& status);

  // The transport's side. Take appends the posts added since the last call, in their order.
  void Take(std::vector<Post>* posts);
  // The next message of this edge has been transferred.
  void Complete(Direction direction, int channel, int peer);
  // Like Abort, but does not wait.
  void Fail(const absl::Status& status);
  // The transport touches no memory of posts from now on. Must follow soon after a failure.
  void ReleaseMemory();
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  absl::Status failure() const;  // OK where nothing failed
  // The peer that the rank's thread waits for at this moment, or kNobody.
  int awaited_peer() const { return awaited_peer_.load(std::memory_order_relaxed); }

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }

 private:
  // One direction of one edge.
  struct Queue {
    uint64_t posted = 0;                 // guarded by mutex_
    std::atomic<uint64_t> completed{0};  // written under mutex_
  };

  Queue& QueueOf(Direction direction, int channel, int peer);
  bool Finished(const Queue& queue, Ticket ticket) const {
    return queue.completed.load(std::memory_order_acquire) > ticket || failed();
  }
  absl::Status CheckPeer(int peer) const;
  absl::Status LateError(Direction direction, int peer, Ticket ticket) const;
  // The rest need mutex_.
  void CopyToMyself(const Post& post);
  void FailLocked(const absl::Status& status);
  void AwaitRelease(std::unique_lock<std::mutex>& lock);

  const Options options_;
  mutable std::mutex mutex_;  // guards what follows, where nothing else is said
  std::condition_variable changed_;
  std::vector<Queue> queues_;  // [direction][channel][peer]
  std::vector<Post> posts_;    // not taken yet
  std::deque<Post> to_myself_[2 * kChannels];
  absl::Status failure_;
  bool released_ = false;
  std::atomic<bool> failed_{false};
  std::atomic<int> awaited_peer_{kNobody};
};

}  // namespace sluice

#endif  // SLUICE_COMM_MESSAGE_QUEUE_H_
