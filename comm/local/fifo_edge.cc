#include "comm/local/fifo_edge.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "comm/message_queue.h"
#include "models/device/wait_until.h"

namespace sluice {
namespace {

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

FifoEdge::FifoEdge(int from, int to, size_t capacity, absl::Duration spin)
    : from_(from), to_(to), capacity_(capacity), spin_(spin) {}

absl::Status FifoEdge::PostSend(const void* data, size_t bytes, Ticket* ticket) {
  return Post(sends_, {.source = data, .bytes = bytes}, ticket);
}

absl::Status FifoEdge::PostReceive(void* data, size_t bytes, Ticket* ticket) {
  return Post(receives_, {.target = data, .bytes = bytes}, ticket);
}

absl::Status FifoEdge::Post(Queue& queue, const Half& half, Ticket* ticket) {
  std::unique_lock lock(mutex_);
  if (!failure_.ok()) return failure_;
  const uint64_t outstanding = queue.posted - completed_.load(std::memory_order_relaxed);
  // Most pairs of ranks never talk, and there are as many as ranks squared.
  if (queue.slots.empty()) queue.slots.resize(capacity_);
  if (outstanding >= capacity_) return TooManyOutstanding(from_, to_, outstanding);
  *ticket = queue.posted;
  queue.slots[queue.posted % queue.slots.size()] = half;
  ++queue.posted;
  if (!copying_) CopyMatched(lock);
  return failure_;
}

void FifoEdge::CopyMatched(std::unique_lock<std::mutex>& lock) {
  copying_ = true;
  uint64_t next = completed_.load(std::memory_order_relaxed);
  while (failure_.ok() && next < std::min(sends_.posted, receives_.posted)) {
    const Half send = sends_.slots[next % sends_.slots.size()];
    const Half receive = receives_.slots[next % receives_.slots.size()];
    if (send.bytes != receive.bytes) {
      failure_ = DifferentSizes(next, from_, to_, send.bytes, receive.bytes);
      failed_.store(true, std::memory_order_release);
      changed_.notify_all();
      break;
    }
    lock.unlock();
    if (send.bytes > 0) std::memcpy(receive.target, send.source, send.bytes);
    lock.lock();
    completed_.store(++next, std::memory_order_release);
    changed_.notify_all();
  }
  copying_ = false;
  if (!failure_.ok()) changed_.notify_all();
}

void FifoEdge::AwaitCopy(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [this] { return !copying_; });
}

bool FifoEdge::Finished(Ticket ticket) const {
  return completed_.load(std::memory_order_acquire) > ticket ||
         failed_.load(std::memory_order_acquire);
}

absl::Status FifoEdge::Wait(Ticket ticket, Instant deadline) {
  if (completed_.load(std::memory_order_acquire) > ticket) return absl::OkStatus();
  const auto stop = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(spin_);
  while (!Finished(ticket) && std::chrono::steady_clock::now() < stop) Pause();
  if (completed_.load(std::memory_order_acquire) > ticket) return absl::OkStatus();

  std::unique_lock lock(mutex_);
  if (!WaitUntil(changed_, lock, deadline, [this, ticket] { return Finished(ticket); })) {
    return absl::DeadlineExceededError(
        absl::StrCat("message ", ticket, " from rank ", from_, " to rank ", to_,
                     " did not arrive in time (", sends_.posted > ticket ? "" : "not ", "sent, ",
                     receives_.posted > ticket ? "" : "not ", "awaited by the receiver)"));
  }
  if (completed_.load(std::memory_order_acquire) <= ticket) AwaitCopy(lock);
  // Whoever copied it before the failure has delivered it.
  return completed_.load(std::memory_order_acquire) > ticket ? absl::OkStatus() : failure_;
}

void FifoEdge::Abort(const absl::Status& status) {
  std::unique_lock lock(mutex_);
  if (failure_.ok()) {
    failure_ = status;
    failed_.store(true, std::memory_order_release);
    changed_.notify_all();
  }
  AwaitCopy(lock);
}

}  // namespace sluice
