#ifndef SLUICE_COMM_MPI_CONTROL_H_
#define SLUICE_COMM_MPI_CONTROL_H_

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "comm/message_queue.h"

namespace sluice {

// The messages by which the ranks of a group tell each other that they have failed or shut down.
// Every rank sends each other rank one such message. Used by the group's thread alone; what goes
// wrong, and the failures of other ranks, are told to the queue.
class MpiControl {
 public:
  // Whether nothing more is to be expected of a rank, since its process has ended.
  using IsLost = std::function<bool(int rank)>;

  MpiControl(MPI_Comm comm, MessageQueue* queue);

  // Starts to listen to the other ranks.
  void Start();
  // Takes in at most one message, where one has come.
  void Poll();
  // Starts to tell all other ranks of `status`, a failure, or OK where this rank shuts down.
  void Tell(const absl::Status& status);
  // Whether every rank that is not lost has taken what Tell sent.
  bool HasToldAll(const IsLost& is_lost);
  // Whether every rank that is not lost has said that it has failed or shuts down.
  bool HasHeardAll(const IsLost& is_lost) const;
  bool HasHeard(int rank) const { return heard_[static_cast<size_t>(rank)]; }
  // Stops listening. Afterwards MPI uses none of this object's memory.
  void Stop();
  // In place of Stop where MPI still uses the memory of messages: leaves that memory to MPI.
  void LeaveMemoryToMpi() { (void)memory_.release(); }

 private:
  // As it goes over the wire.
  struct Message {
    uint32_t code = 0;  // of the failure's status; OK: this rank shuts down
    uint32_t bytes = 0;
    char text[1000] = {};  // EncodeError
  };
  struct Memory {
    Message incoming;
    Message outgoing;
    MPI_Request incoming_request = MPI_REQUEST_NULL;
    std::vector<MPI_Request> outgoing_requests;  // [rank]
  };

  void Expect(int code, absl::string_view what);

  const MPI_Comm comm_;
  MessageQueue& queue_;
  std::unique_ptr<Memory> memory_;
  std::vector<bool> heard_;  // [rank]; true for this rank
};

}  // namespace sluice

#endif  // SLUICE_COMM_MPI_CONTROL_H_
