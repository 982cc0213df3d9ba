#include "comm/nccl/nccl_edge.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "comm/message_queue.h"
#include "comm/where.h"

namespace sluice {
namespace {

absl::Status Aborted() { return absl::CancelledError("the edge was aborted"); }

}  // namespace

NcclEdge::NcclEdge(NcclApi* nccl, Device* device, Stream compute, Where where, size_t capacity)
    : nccl_(*nccl), device_(*device), compute_(compute), where_(where), capacity_(capacity) {}

NcclEdge::~NcclEdge() { Abort(); }

std::string NcclEdge::Name() const {
  return absl::StrCat("from rank ", where_.from, " to rank ", where_.to);
}

absl::Status NcclEdge::Explain(NcclResult result) {
  if (result == NcclResult::kSuccess || result == NcclResult::kInProgress) return absl::OkStatus();
  return WithPeer(NcclStatus(result, absl::StrCat(doing_, " ", Name()), nccl_.LastError(comm_)),
                  peer());
}

absl::Status NcclEdge::Begun(NcclResult result, absl::string_view what) {
  doing_ = std::string(what);
  return Explain(result);
}

absl::StatusOr<bool> NcclEdge::ReadyLocked() {
  if (!open_) return Aborted();
  const NcclResult result = nccl_.AsyncError(comm_);
  if (result == NcclResult::kInProgress) return false;
  if (absl::Status status = Explain(result); !status.ok()) return status;
  return true;
}

absl::StatusOr<bool> NcclEdge::Ready() {
  const std::lock_guard lock(mutex_);
  return ReadyLocked();
}

absl::Status NcclEdge::Connect(int ordinal, const NcclId& id, int max_ctas) {
  absl::StatusOr<Stream> stream = device_.NewStream();
  if (!stream.ok()) return stream.status();
  stream_ = *stream;
  config_ = {.max_ctas = max_ctas, .name = absl::StrCat(where_.from, ">", where_.to)};
  const std::lock_guard lock(mutex_);
  const NcclResult result = nccl_.Init(ordinal, id, where_.end == kSender ? 0 : 1, config_, &comm_);
  open_ = comm_.handle != nullptr;
  return Begun(result, "connecting");
}

NcclResult NcclEdge::Move(void* data, size_t bytes) {
  return where_.end == kSender ? nccl_.Send(comm_, data, bytes, stream_)
                               : nccl_.Receive(comm_, data, bytes, stream_);
}

absl::Status NcclEdge::Transfer(void* data, size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!open_) return Aborted();
  return Begun(Move(data, bytes), "the first message");
}

absl::Status NcclEdge::Register(void* data, size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!open_) return Aborted();
  void** const handle = &registered_.emplace_back(nullptr);
  return Begun(nccl_.Register(comm_, data, bytes, handle), "registering memory for messages");
}

absl::Status NcclEdge::Finalize() {
  const std::lock_guard lock(mutex_);
  if (!open_) return Aborted();
  for (void* handle : registered_) {
    if (handle != nullptr) nccl_.Deregister(comm_, handle);
  }
  registered_.clear();
  return Begun(nccl_.Finalize(comm_), "closing the edge");
}

void NcclEdge::Destroy() {
  const std::lock_guard lock(mutex_);
  if (open_) nccl_.Destroy(comm_);
  open_ = false;
}

void NcclEdge::Abort() {
  const std::lock_guard lock(mutex_);
  if (open_) nccl_.Abort(comm_);
  open_ = false;
}

absl::Status NcclEdge::Settle(Instant deadline) {
  while (true) {
    absl::StatusOr<bool> ready = Ready();
    if (!ready.ok()) return ready.status();
    if (*ready) return absl::OkStatus();
    if (Instant::Now() >= deadline)
      return WithPeer(absl::DeadlineExceededError(
                          absl::StrCat("NCCL did not begin a message ", Name(), " in time")),
                      peer());
    std::this_thread::yield();  // microseconds: what takes longer was done when connecting
  }
}

absl::Status NcclEdge::MakeMoments() {
  if (moments_.size() == capacity_ || posted_ < moments_.size()) return absl::OkStatus();
  Moments made;
  for (Event* event : {&made.ready, &made.done, &made.reached}) {
    absl::StatusOr<Event> fresh = device_.NewEvent();
    if (!fresh.ok()) return fresh.status();
    *event = *fresh;
  }
  moments_.push_back(made);
  return absl::OkStatus();
}

absl::Status NcclEdge::Post(void* data, size_t bytes, Instant deadline, Ticket* ticket) {
  Event done;
  {
    const std::lock_guard lock(mutex_);
    if (!open_) return Aborted();
    if (posted_ - waited_ >= capacity_)
      return TooManyOutstanding(where_.from, where_.to, capacity_);
    if (absl::Status status = MakeMoments(); !status.ok()) return status;
    const Moments& moments = moments_[posted_ % capacity_];
    done = moments.done;
    device_.Record(moments.ready, compute_);
    device_.Wait(stream_, moments.ready);
    *ticket = posted_++;
    absl::Status status = Begun(Move(data, bytes), absl::StrCat("message ", *ticket));
    if (!status.ok()) return status;
  }
  // NCCL may queue the message on a thread of its own: what follows on the stream waits for that.
  if (absl::Status status = Settle(deadline); !status.ok()) return status;
  device_.Record(done, stream_);
  return absl::OkStatus();
}

absl::Status NcclEdge::Wait(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  if (!open_) return Aborted();
  if (ticket >= posted_)
    return absl::InvalidArgumentError(
        absl::StrCat("message ", ticket, " ", Name(), " was never posted"));
  if (absl::StatusOr<bool> ready = ReadyLocked(); !ready.ok()) return ready.status();
  const Moments& moments = moments_[ticket % capacity_];
  device_.Record(moments.reached, compute_);
  device_.Wait(compute_, moments.done);
  waited_ = std::max(waited_, ticket + 1);
  return absl::OkStatus();
}

absl::Status NcclEdge::Check() {
  const std::lock_guard lock(mutex_);
  return open_ ? ReadyLocked().status() : absl::OkStatus();
}

NcclEdge::Progress NcclEdge::ProgressOf(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  // Events of a message that has been overtaken by a whole ring of others are theirs now.
  if (!open_ || posted_ >= ticket + capacity_) return Progress::kPassed;
  const Moments& moments = moments_[ticket % capacity_];
  if (device_.Passed(moments.done)) return Progress::kPassed;
  return device_.Passed(moments.reached) ? Progress::kStalled : Progress::kNotReached;
}

absl::Status NcclEdge::Late(Ticket ticket) const {
  return WithPeer(
      absl::DeadlineExceededError(absl::StrCat(
          "message ", ticket, " ", Name(),
          where_.end == kSender ? " was not taken in time" : " did not arrive in time")),
      peer());
}

}  // namespace sluice
