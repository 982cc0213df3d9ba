#include "comm/mpi/control.h"

#include <algorithm>
#include <string>

#include "comm/mpi/error.h"
#include "comm/where.h"

namespace sluice {
namespace {

// Program and collective messages go under the numbers of their channels.
constexpr int kControlTag = kChannels;

}  // namespace

MpiControl::MpiControl(MPI_Comm comm, MessageQueue* queue)
    : comm_(comm),
      queue_(*queue),
      memory_(std::make_unique<Memory>()),
      heard_(static_cast<size_t>(queue->size()), false) {
  memory_->outgoing_requests.resize(heard_.size());
  heard_[static_cast<size_t>(queue->rank())] = true;
}

void MpiControl::Expect(int code, absl::string_view what) {
  if (code != MPI_SUCCESS) queue_.Fail(FromMpi(code, what));
}

void MpiControl::Start() {
  Expect(MPI_Recv_init(&memory_->incoming, sizeof(Message), MPI_BYTE, MPI_ANY_SOURCE, kControlTag,
                       comm_, &memory_->incoming_request),
         "control receive");
  Expect(MPI_Start(&memory_->incoming_request), "control receive");
}

void MpiControl::Poll() {
  int arrived = 0;
  MPI_Status status;
  Expect(MPI_Test(&memory_->incoming_request, &arrived, &status), "control");
  if (arrived == 0) return;
  const Message& message = memory_->incoming;
  heard_[static_cast<size_t>(status.MPI_SOURCE)] = true;
  if (message.code != 0) {
    queue_.Fail(DecodeError(
        message.code,
        absl::string_view(message.text, std::min<size_t>(message.bytes, sizeof(message.text)))));
  }
  Expect(MPI_Start(&memory_->incoming_request), "control receive");
}

void MpiControl::Tell(const absl::Status& status) {
  Message& message = memory_->outgoing;
  message.code = static_cast<uint32_t>(status.code());
  const std::string error = EncodeError(status, sizeof(message.text) - kLongestWhere);
  message.bytes = static_cast<uint32_t>(std::min(error.size(), sizeof(message.text)));
  std::copy_n(error.begin(), message.bytes, message.text);
  for (int peer = 0; peer < queue_.size(); ++peer) {
    MPI_Request& request = memory_->outgoing_requests[static_cast<size_t>(peer)];
    request = MPI_REQUEST_NULL;
    if (peer == queue_.rank()) continue;
    MPI_Isend(&message, sizeof(Message), MPI_BYTE, peer, kControlTag, comm_, &request);
  }
}

bool MpiControl::HasToldAll(const IsLost& is_lost) {
  bool all = true;
  for (int peer = 0; peer < queue_.size(); ++peer) {
    int told = 0;
    MPI_Test(&memory_->outgoing_requests[static_cast<size_t>(peer)], &told, MPI_STATUS_IGNORE);
    all = all && (told != 0 || is_lost(peer));
  }
  return all;
}

bool MpiControl::HasHeardAll(const IsLost& is_lost) const {
  for (int peer = 0; peer < queue_.size(); ++peer) {
    if (!HasHeard(peer) && !is_lost(peer)) return false;
  }
  return true;
}

void MpiControl::Stop() {
  MPI_Cancel(&memory_->incoming_request);
  MPI_Wait(&memory_->incoming_request, MPI_STATUS_IGNORE);
  MPI_Request_free(&memory_->incoming_request);
}

}  // namespace sluice
