#include "comm/queue_communicator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "comm/message_failpoint.h"
#include "comm/where.h"

namespace sluice {

absl::Status QueueCommunicator::PostSend(int to, const void* data, size_t bytes, Ticket* ticket) {
  if (absl::Status status = HitMessage("send"); !status.ok()) return status;
  return queue_.Add({.direction = Direction::kSend,
                     .channel = channels_.messages,
                     .peer = to,
                     // Only read: see Post.
                     .data = const_cast<char*>(static_cast<const char*>(data)),
                     .bytes = bytes},
                    ticket);
}

absl::Status QueueCommunicator::PostReceive(int from, void* data, size_t bytes, Ticket* ticket) {
  if (absl::Status status = HitMessage("receive"); !status.ok()) return status;
  return queue_.Add({.direction = Direction::kReceive,
                     .channel = channels_.messages,
                     .peer = from,
                     .data = static_cast<char*>(data),
                     .bytes = bytes},
                    ticket);
}

absl::Status QueueCommunicator::WaitSend(int to, Ticket ticket, Instant deadline) {
  if (absl::Status status = HitMessage("wait"); !status.ok()) return status;
  return queue_.Wait(Direction::kSend, channels_.messages, to, ticket, deadline);
}

absl::Status QueueCommunicator::WaitReceive(int from, Ticket ticket, Instant deadline) {
  if (absl::Status status = HitMessage("wait"); !status.ok()) return status;
  return queue_.Wait(Direction::kReceive, channels_.messages, from, ticket, deadline);
}

absl::Status QueueCommunicator::AllGather(absl::Span<const double> mine, absl::Span<double> all,
                                          Instant deadline) {
  const auto ranks = static_cast<size_t>(size());
  if (all.size() != mine.size() * ranks) {
    return absl::InternalError(absl::StrCat("all-gather: rank ", rank(), " brought ", mine.size(),
                                            " values for ", all.size(), " places"));
  }
  if (late_.ok()) {
    outgoing_.assign(mine.begin(), mine.end());
    incoming_.resize(all.size());
  }
  if (absl::Status status = GatherFromAll(deadline); !status.ok()) return status;
  std::copy(mine.begin(), mine.end(),
            incoming_.begin() + static_cast<std::ptrdiff_t>(mine.size()) * rank());
  std::copy(incoming_.begin(), incoming_.end(), all.begin());
  return absl::OkStatus();
}

absl::Status QueueCommunicator::Barrier(Instant deadline) {
  if (late_.ok()) {
    outgoing_.clear();
    incoming_.clear();
  }
  return GatherFromAll(deadline);
}

absl::Status QueueCommunicator::GatherFromAll(Instant deadline) {
  if (absl::Status status = HitMessage("meet"); !status.ok()) return status;
  if (queue_.failed()) return queue_.failure();
  if (!late_.ok()) return late_;
  absl::Status status = PostGather();
  if (status.ok()) status = WaitGather(deadline);
  if (IsLate(status)) late_ = status;
  return status;
}

bool QueueCommunicator::IsLate(const absl::Status& status) const {
  return absl::IsDeadlineExceeded(status) && !queue_.failed();
}

absl::Status QueueCommunicator::PostGather() {
  const size_t bytes = outgoing_.size() * sizeof(double);
  char* out = reinterpret_cast<char*>(outgoing_.data());
  char* in = reinterpret_cast<char*>(incoming_.data());
  tickets_.resize(static_cast<size_t>(size()));
  // Everybody starts with its right neighbour, so that no rank is everybody's first.
  for (int step = 1; step < size(); ++step) {
    const int to = (rank() + step) % size();
    const int from = (rank() + size() - step) % size();
    absl::Status status =
        queue_.Add({.direction = Direction::kReceive,
                    .channel = channels_.collectives,
                    .peer = from,
                    .data = bytes == 0 ? nullptr : in + bytes * static_cast<size_t>(from),
                    .bytes = bytes},
                   &tickets_[static_cast<size_t>(from)].received);
    status.Update(queue_.Add({.direction = Direction::kSend,
                              .channel = channels_.collectives,
                              .peer = to,
                              .data = out,
                              .bytes = bytes},
                             &tickets_[static_cast<size_t>(to)].sent));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status QueueCommunicator::WaitGather(Instant deadline) {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    const Tickets& tickets = tickets_[static_cast<size_t>(peer)];
    absl::Status status =
        queue_.Wait(Direction::kReceive, channels_.collectives, peer, tickets.received, deadline);
    if (status.ok()) {
      status = queue_.Wait(Direction::kSend, channels_.collectives, peer, tickets.sent, deadline);
    }
    if (IsLate(status)) {
      return WithPrefix(absl::StrCat("rank ", rank(), " waited for all ranks, but rank ", peer,
                                     " did not come in time: "),
                        status);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace sluice
