#include "comm/device_edge.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "comm/message_queue.h"
#include "models/device/wait_until.h"

namespace sluice {

DeviceEdge::DeviceEdge(int from, int to, size_t capacity)
    : from_(from), to_(to), capacity_(capacity) {}

absl::Status DeviceEdge::Post(End end, const Queue& queue, void* data, size_t bytes,
                              Ticket* ticket) {
  const std::lock_guard lock(mutex_);
  if (!failure_.ok()) return failure_;
  Side& side = sides_[end];
  // So an entry of a ring is free when its turn comes again: by then the other end has posted the
  // same message, and waited for the one before.
  if (side.posted - side.waited >= capacity_) return TooManyOutstanding(from_, to_, capacity_);
  if (end == kReceiver && copies_.device == nullptr) {
    absl::StatusOr<Stream> stream = queue.device->NewStream();
    if (!stream.ok()) return stream.status();
    copies_ = {.device = queue.device, .stream = *stream};
  }
  absl::Status status = PostLocked(side, queue, data, bytes);
  if (!status.ok()) return status;
  *ticket = side.posted++;
  return QueueCopies();
}

absl::Status DeviceEdge::PostLocked(Side& side, const Queue& queue, void* data, size_t bytes) {
  if (side.halves.size() < capacity_ && side.posted == side.halves.size()) {
    absl::StatusOr<Event> event = queue.device->NewEvent();
    if (!event.ok()) return event.status();
    side.halves.push_back({.ready = *event});
  }
  Half& half = side.halves[side.posted % capacity_];
  half.data = data;
  half.bytes = bytes;
  queue.device->Record(half.ready, queue.stream);
  return absl::OkStatus();
}

absl::Status DeviceEdge::QueueCopies() {
  while (copied_ < std::min(sides_[kSender].posted, sides_[kReceiver].posted)) {
    const size_t slot = copied_ % capacity_;
    absl::Status status = QueueCopy(sides_[kSender].halves[slot], sides_[kReceiver].halves[slot]);
    if (!status.ok()) failure_ = status;
    changed_.notify_all();
    if (!status.ok()) return status;
    ++copied_;
  }
  return absl::OkStatus();
}

absl::Status DeviceEdge::QueueCopy(const Half& send, const Half& receive) {
  if (send.bytes != receive.bytes)
    return DifferentSizes(copied_, from_, to_, send.bytes, receive.bytes);
  if (done_.size() == copied_ && done_.size() < capacity_) {
    absl::StatusOr<Event> event = copies_.device->NewEvent();
    if (!event.ok()) return event.status();
    done_.push_back(*event);
  }
  Device& device = *copies_.device;
  device.Wait(copies_.stream, send.ready);
  device.Wait(copies_.stream, receive.ready);
  device.Copy(copies_.stream, receive.data, send.data, send.bytes);
  device.Record(done_[copied_ % capacity_], copies_.stream);
  return absl::OkStatus();
}

absl::Status DeviceEdge::Wait(End end, const Queue& queue, Ticket ticket, Instant deadline) {
  std::unique_lock lock(mutex_);
  const auto finished = [&] { return copied_ > ticket || !failure_.ok(); };
  if (!WaitUntil(changed_, lock, deadline, finished)) {
    return absl::DeadlineExceededError(absl::StrCat(
        "message ", ticket, " from rank ", from_, " to rank ", to_, " did not arrive in time (",
        sides_[kSender].posted > ticket ? "" : "not ", "sent, ",
        sides_[kReceiver].posted > ticket ? "" : "not ", "awaited by the receiver)"));
  }
  if (copied_ <= ticket) return failure_;
  queue.device->Wait(queue.stream, done_[ticket % capacity_]);
  sides_[end].waited = std::max(sides_[end].waited, ticket + 1);
  return absl::OkStatus();
}

void DeviceEdge::Abort(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = status;
  changed_.notify_all();
}

}  // namespace sluice
