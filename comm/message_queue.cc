#include "comm/message_queue.h"

#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/where.h"
#include "models/device/wait_until.h"

namespace sluice {
namespace {

size_t Index(Direction direction, int channel) {
  return static_cast<size_t>(direction) * kChannels + static_cast<size_t>(channel);
}

Direction Opposite(Direction direction) {
  return direction == Direction::kSend ? Direction::kReceive : Direction::kSend;
}

// Sets a variable to a value while it lives.
class Setting {
 public:
  Setting(std::atomic<int>* variable, int value)
      : variable_(variable), before_(variable->exchange(value, std::memory_order_relaxed)) {}
  ~Setting() { variable_->store(before_, std::memory_order_relaxed); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  std::atomic<int>* const variable_;
  const int before_;
};

}  // namespace

absl::Status DifferentSizes(Ticket ticket, int from, int to, size_t sent, size_t expected) {
  return absl::InternalError(absl::StrCat("message ", ticket, " from rank ", from, " to rank ", to,
                                          ": sent ", sent, " bytes, the receiver expected ",
                                          expected, "; the two ranks do not run the same program"));
}

absl::Status TooManyOutstanding(int from, int to, uint64_t outstanding) {
  return absl::ResourceExhaustedError(
      absl::StrCat("edge from rank ", from, " to rank ", to, ": ", outstanding,
                   " messages are outstanding, as many as it was made for; wait for some first"));
}

MessageQueue::MessageQueue(Options options)
    : options_(std::move(options)),
      queues_(size_t{2} * kChannels * static_cast<size_t>(options_.size)),
      released_(options_.size == 1) {}

MessageQueue::Queue& MessageQueue::QueueOf(Direction direction, int channel, int peer) {
  return queues_[Index(direction, channel) * static_cast<size_t>(options_.size) +
                 static_cast<size_t>(peer)];
}

absl::Status MessageQueue::CheckPeer(int peer) const {
  if (peer >= 0 && peer < options_.size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("there is no rank ", peer, " among ", options_.size));
}

absl::Status MessageQueue::Add(Post post, Ticket* ticket) {
  if (absl::Status status = CheckPeer(post.peer); !status.ok()) return status;
  absl::Status result;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return failure_;
    Queue& queue = QueueOf(post.direction, post.channel, post.peer);
    const uint64_t outstanding = queue.posted - queue.completed.load(std::memory_order_relaxed);
    if (outstanding >= options_.capacity) {
      const bool send = post.direction == Direction::kSend;
      return TooManyOutstanding(send ? rank() : post.peer, send ? post.peer : rank(), outstanding);
    }
    *ticket = post.ticket = queue.posted++;
    if (post.peer == rank()) {
      CopyToMyself(post);
    } else {
      posts_.push_back(post);
    }
    result = failure_;
  }
  options_.wake();
  return result;
}

void MessageQueue::CopyToMyself(const Post& post) {
  std::deque<Post>& others = to_myself_[Index(Opposite(post.direction), post.channel)];
  if (others.empty()) {
    to_myself_[Index(post.direction, post.channel)].push_back(post);
    return;
  }
  const Post other = others.front();
  others.pop_front();
  const Post& send = post.direction == Direction::kSend ? post : other;
  const Post& receive = post.direction == Direction::kSend ? other : post;
  if (send.bytes != receive.bytes) {
    FailLocked(DifferentSizes(post.ticket, rank(), rank(), send.bytes, receive.bytes));
    return;
  }
  if (send.bytes > 0) std::memcpy(receive.data, send.data, send.bytes);
  for (const Direction direction : {Direction::kSend, Direction::kReceive}) {
    QueueOf(direction, post.channel, rank()).completed.fetch_add(1, std::memory_order_release);
  }
  changed_.notify_all();
}

absl::Status MessageQueue::Wait(Direction direction, int channel, int peer, Ticket ticket,
                                Instant deadline) {
  if (absl::Status status = CheckPeer(peer); !status.ok()) return status;
  const Queue& queue = QueueOf(direction, channel, peer);
  if (queue.completed.load(std::memory_order_acquire) > ticket) return absl::OkStatus();
  // What the thread in the background waits for does not say what the rank does.
  std::optional<Setting> awaited;
  if (channel == kProgramChannel || channel == kCollectiveChannel)
    awaited.emplace(&awaited_peer_, peer);
  const auto stop = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(options_.spin);
  while (!Finished(queue, ticket) && std::chrono::steady_clock::now() < stop) {
  }
  std::unique_lock lock(mutex_);
  if (!WaitUntil(changed_, lock, deadline, [&] { return Finished(queue, ticket); })) {
    return LateError(direction, peer, ticket);
  }
  if (queue.completed.load(std::memory_order_acquire) > ticket) return absl::OkStatus();
  AwaitRelease(lock);
  return failure_;
}

absl::Status MessageQueue::LateError(Direction direction, int peer, Ticket ticket) const {
  const bool send = direction == Direction::kSend;
  const PeerHealth health = options_.health ? options_.health(peer) : PeerHealth{"", peer};
  return WithPeer(absl::DeadlineExceededError(absl::StrCat(
                      "message ", ticket, " from rank ", send ? rank() : peer, " to rank ",
                      send ? peer : rank(),
                      send ? " was not taken in time" : " did not arrive in time", health.words)),
                  health.suspect);
}

void MessageQueue::Abort(const absl::Status& status) {
  Fail(status);
  std::unique_lock lock(mutex_);
  AwaitRelease(lock);
}

void MessageQueue::AwaitRelease(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [this] { return released_; });
}

void MessageQueue::Take(std::vector<Post>* posts) {
  const std::lock_guard lock(mutex_);
  posts->insert(posts->end(), posts_.begin(), posts_.end());
  posts_.clear();
}

void MessageQueue::Complete(Direction direction, int channel, int peer) {
  // Under the lock, so that no waiter falls asleep between its last look and this.
  const std::lock_guard lock(mutex_);
  QueueOf(direction, channel, peer).completed.fetch_add(1, std::memory_order_release);
  changed_.notify_all();
}

void MessageQueue::Fail(const absl::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    FailLocked(status);
  }
  options_.wake();
}

void MessageQueue::FailLocked(const absl::Status& status) {
  if (!failure_.ok()) return;
  failure_ = status;
  failed_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void MessageQueue::ReleaseMemory() {
  const std::lock_guard lock(mutex_);
  released_ = true;
  changed_.notify_all();
}

absl::Status MessageQueue::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace sluice
