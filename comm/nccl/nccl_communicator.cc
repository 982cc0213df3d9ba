#include "comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "comm/where.h"
#include "models/device/out_of_memory.h"

namespace sluice {
namespace {

// A fault is noticed that much later; each look costs some microseconds per edge.
constexpr std::chrono::milliseconds kLook{5};
constexpr std::chrono::microseconds kNap{100};

}  // namespace

void AbortAll(const NcclEdges& edges) {
  std::vector<std::thread> others(edges.size());
  for (size_t i = 1; i < edges.size(); ++i) {
    NcclEdge* const edge = edges[i].get();
    const absl::Status started = StartThread(
        "aborting messages", [edge] { edge->Abort(); }, &others[i]);
    if (!started.ok()) edge->Abort();  // one after another is better than never
  }
  if (!edges.empty()) edges.front()->Abort();
  for (std::thread& thread : others) {
    if (thread.joinable()) thread.join();
  }
}

absl::Status AwaitReady(const NcclEdges& edges, const Communicator& host, Instant deadline) {
  for (const auto& edge : edges) {
    while (true) {
      absl::StatusOr<bool> ready = edge->Ready();
      if (!ready.ok()) return ready.status();
      if (*ready) break;
      if (absl::Status status = host.failure(); !status.ok()) return status;
      if (Instant::Now() >= deadline)
        return WithPeer(absl::DeadlineExceededError(absl::StrCat("NCCL: the edge ", edge->Name(),
                                                                 " was not ready in time")),
                        edge->peer());
      std::this_thread::sleep_for(kNap);
    }
  }
  return absl::OkStatus();
}

NcclEnd::NcclEnd(const NcclOptions& options, Communicator* host, Device* device, Stream compute,
                 NcclEdges edges)
    : host_(*host),
      queue_{.device = device, .stream = compute},
      timeout_(options.timeout),
      edges_(std::move(edges)),
      to_(static_cast<size_t>(host->size())),
      from_(static_cast<size_t>(host->size())),
      self_(host->rank(), host->rank(), options.capacity) {
  for (const auto& edge : edges_) {
    const NcclEdge::Where& where = edge->where();
    const bool sends = where.end == NcclEdge::kSender;
    (sends ? to_ : from_)[static_cast<size_t>(sends ? where.to : where.from)] = edge.get();
  }
  watch_ = std::thread([this] { Watch(); });
}

NcclEnd::~NcclEnd() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  watch_.join();
  absl::Status status = failure();
  if (status.ok()) status = CheckNothingIsOutstanding();
  if (!status.ok()) {
    Abort(status);
  } else if (Close().ok()) {
    for (const auto& edge : edges_) edge->Destroy();
  } else {
    AbortAll(edges_);  // all that matters has been said: the others need not hear of it
  }
}

absl::Status NcclEnd::CheckNothingIsOutstanding() const {
  for (const auto& edge : edges_) {
    if (edge->outstanding())
      return absl::CancelledError(absl::StrCat("rank ", rank(), " has left while a message ",
                                               edge->Name(), " was outstanding"));
  }
  return absl::OkStatus();
}

absl::Status NcclEnd::Close() {
  for (const auto& edge : edges_) {
    if (absl::Status status = edge->Finalize(); !status.ok()) return status;
  }
  return AwaitReady(edges_, host_, Instant::Now() + timeout_);
}

absl::StatusOr<NcclEdge*> NcclEnd::EdgeOf(int from, int to) const {
  const bool sends = from == rank();
  const int peer = sends ? to : from;
  if (peer < 0 || peer >= size())
    return absl::InvalidArgumentError(absl::StrCat("there is no rank ", peer, " among ", size()));
  NcclEdge* edge = (sends ? to_ : from_)[static_cast<size_t>(peer)];
  if (edge == nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat("a message from rank ", from, " to rank ", to,
                     ": this edge was not named when the ranks were connected"));
  return edge;
}

absl::Status NcclEnd::failure() const {
  // The host's failure is the group's first; a rank that failed later must not report another.
  if (absl::Status status = host_.failure(); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  return failure_;
}

absl::Status NcclEnd::Settled(const absl::Status& status) const {
  if (status.ok()) return status;
  absl::Status first = failure();
  return first.ok() ? status : first;
}

absl::Status NcclEnd::Post(int from, int to, void* data, size_t bytes, Ticket* ticket) {
  if (absl::Status status = failure(); !status.ok()) return status;
  const absl::StatusOr<NcclEdge*> edge = EdgeOf(from, to);
  if (!edge.ok()) return edge.status();
  return Settled((*edge)->Post(data, bytes, Instant::Now() + timeout_, ticket));
}

absl::Status NcclEnd::Wait(int from, int to, Ticket ticket, Instant deadline) {
  if (absl::Status status = failure(); !status.ok()) return status;
  const absl::StatusOr<NcclEdge*> edge = EdgeOf(from, to);
  if (!edge.ok()) return edge.status();
  absl::Status status = (*edge)->Wait(ticket);
  if (!status.ok()) return Settled(status);
  const std::lock_guard lock(mutex_);
  waits_.push_back({.edge = *edge, .ticket = ticket, .timeout = deadline - Instant::Now()});
  return absl::OkStatus();
}

// Messages to oneself are copies on a stream, as within a process; an edge never writes what its
// sender posts.
absl::Status NcclEnd::PostSend(int to, const void* data, size_t bytes, Ticket* ticket) {
  void* memory = const_cast<void*>(data);
  if (to == rank()) return Settled(self_.Post(DeviceEdge::kSender, queue_, memory, bytes, ticket));
  return Post(rank(), to, memory, bytes, ticket);
}

absl::Status NcclEnd::PostReceive(int from, void* data, size_t bytes, Ticket* ticket) {
  if (from == rank())
    return Settled(self_.Post(DeviceEdge::kReceiver, queue_, data, bytes, ticket));
  return Post(from, rank(), data, bytes, ticket);
}

absl::Status NcclEnd::WaitSend(int to, Ticket ticket, Instant deadline) {
  if (to == rank()) return Settled(self_.Wait(DeviceEdge::kSender, queue_, ticket, deadline));
  return Wait(rank(), to, ticket, deadline);
}

absl::Status NcclEnd::WaitReceive(int from, Ticket ticket, Instant deadline) {
  if (from == rank()) return Settled(self_.Wait(DeviceEdge::kReceiver, queue_, ticket, deadline));
  return Wait(from, rank(), ticket, deadline);
}

absl::Status NcclEnd::AllGather(absl::Span<const double> mine, absl::Span<double> all,
                                Instant deadline) {
  return host_.AllGather(mine, all, deadline);
}

absl::Status NcclEnd::Barrier(Instant deadline) { return host_.Barrier(deadline); }

absl::Status NcclEnd::Register(void* data, size_t bytes) {
  for (const auto& edge : edges_) {
    if (absl::Status status = edge->Register(data, bytes); !status.ok()) return Settled(status);
  }
  return Settled(AwaitReady(edges_, host_, Instant::Now() + timeout_));
}

// The host first: work that NCCL lets go goes on with what it finds in memory, and whoever sees its
// end must then find the failure too.
void NcclEnd::Abort(const absl::Status& status) {
  host_.Abort(status);
  {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = status;
  }
  self_.Abort(status);
  AbortAll(edges_);
}

void NcclEnd::Watch() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [this] { return stop_; })) {
    lock.unlock();
    if (absl::Status status = Look(); !status.ok()) {
      Abort(status);
      return;
    }
    lock.lock();
  }
}

absl::Status NcclEnd::Look() {
  if (absl::Status status = host_.failure(); !status.ok()) return status;
  for (const auto& edge : edges_) {
    if (absl::Status status = edge->Check(); !status.ok()) return status;
  }
  return LookAtWaits();
}

absl::Status NcclEnd::LookAtWaits() {
  const std::lock_guard lock(mutex_);
  while (!waits_.empty()) {
    Awaited& first = waits_.front();
    const NcclEdge::Progress progress = first.edge->ProgressOf(first.ticket);
    if (progress == NcclEdge::Progress::kNotReached) return absl::OkStatus();
    if (progress == NcclEdge::Progress::kStalled) {
      const Instant now = Instant::Now();
      first.stalled = std::min(first.stalled, now);
      if (now - first.stalled <= first.timeout) return absl::OkStatus();
      return first.edge->Late(first.ticket);
    }
    waits_.pop_front();
  }
  return absl::OkStatus();
}

}  // namespace sluice
