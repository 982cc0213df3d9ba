#include "comm/watched_communicator.h"

namespace sluice {

absl::Status WatchedCommunicator::Noted(absl::Status status) {
  progress_.Step();
  progress_.SetInformed(!status.ok());
  return status;
}

absl::Status WatchedCommunicator::PostSend(int to, const void* data, size_t bytes, Ticket* ticket) {
  return Noted(watched_.PostSend(to, data, bytes, ticket));
}

absl::Status WatchedCommunicator::PostReceive(int from, void* data, size_t bytes, Ticket* ticket) {
  return Noted(watched_.PostReceive(from, data, bytes, ticket));
}

absl::Status WatchedCommunicator::WaitSend(int to, Ticket ticket, Instant deadline) {
  const Progress::Waiting waiting(&progress_, deadline);
  return Noted(watched_.WaitSend(to, ticket, deadline));
}

absl::Status WatchedCommunicator::WaitReceive(int from, Ticket ticket, Instant deadline) {
  const Progress::Waiting waiting(&progress_, deadline);
  return Noted(watched_.WaitReceive(from, ticket, deadline));
}

absl::Status WatchedCommunicator::AllGather(absl::Span<const double> mine, absl::Span<double> all,
                                            Instant deadline) {
  const Progress::Waiting waiting(&progress_, deadline);
  return Noted(watched_.AllGather(mine, all, deadline));
}

absl::Status WatchedCommunicator::Barrier(Instant deadline) {
  const Progress::Waiting waiting(&progress_, deadline);
  return Noted(watched_.Barrier(deadline));
}

void WatchedCommunicator::Abort(const absl::Status& status) {
  progress_.SetInformed(true);
  watched_.Abort(status);
}

}  // namespace sluice
