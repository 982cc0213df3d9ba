#ifndef SLUICE_COMM_NCCL_NCCL_EDGE_H_
#define SLUICE_COMM_NCCL_NCCL_EDGE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/communicator.h"
#include "comm/nccl/nccl_api.h"
#include "models/device/device.h"
#include "models/device/instant.h"

namespace sluice {

// One rank's end of one directed edge: a communicator of the two ranks, and a stream of its own on
// which messages move in order. A message starts once the rank's compute stream has got to where it
// was posted, and the compute stream goes on after it from where it was waited for; the host waits
// for neither.
//
// Used by the rank's thread, but Check, Stalled and Abort, which any thread may call.
class NcclEdge {
 public:
  enum End : uint8_t { kSender, kReceiver };
  struct Where {
    int from = 0;
    int to = 0;
    End end = kSender;
  };

  // `capacity`: messages that may be posted and not yet waited for. All must outlive the edge.
  NcclEdge(NcclApi* nccl, Device* device, Stream compute, Where where, size_t capacity);
  ~NcclEdge();  // aborts what has not been closed
  NcclEdge(const NcclEdge&) = delete;
  NcclEdge& operator=(const NcclEdge&) = delete;

  const Where& where() const { return where_; }
  // The rank at the other end.
  int peer() const { return where_.end == kSender ? where_.to : where_.from; }
  Stream stream() const { return stream_; }
  // "from rank 0 to rank 1"
  std::string Name() const;

  // Each begins what has ended well once Ready is true. Both ends must begin it.
  absl::Status Connect(int ordinal, const NcclId& id, int max_ctas);
  absl::Status Transfer(void* data, size_t bytes);  // a message outside of the program's
  absl::Status Register(void* data, size_t bytes);
  absl::Status Finalize();
  absl::StatusOr<bool> Ready();
  // After Finalize.
  void Destroy();

  absl::Status Post(void* data, size_t bytes, Instant deadline, Ticket* ticket);
  absl::Status Wait(Ticket ticket);
  // Whether some message has been posted and not waited for.
  bool outstanding() const { return waited_ < posted_; }

  // Not OK once something has gone wrong on the edge.
  absl::Status Check();
  // How far the compute stream has come with its wait for message `ticket`.
  enum class Progress : uint8_t { kNotReached, kStalled, kPassed };
  Progress ProgressOf(Ticket ticket);
  // DeadlineExceeded: "message 3 from rank 0 to rank 1 did not arrive in time".
  absl::Status Late(Ticket ticket) const;

  // Once it has returned, no call of NCCL is made on the edge any more, and what was queued ends.
  void Abort();

 private:
  struct Moments {
    Event ready;    // of the compute stream, when the message was posted
    Event done;     // of the edge's stream: the message has left or arrived
    Event reached;  // of the compute stream, when the message was waited for
  };

  absl::Status MakeMoments();
  // Call with mutex_ held.
  absl::Status Explain(NcclResult result);
  absl::Status Begun(NcclResult result, absl::string_view what);
  absl::StatusOr<bool> ReadyLocked();
  NcclResult Move(void* data, size_t bytes);
  // Polls until nothing is in progress.
  absl::Status Settle(Instant deadline);

  NcclApi& nccl_;
  Device& device_;
  const Stream compute_;
  const Where where_;
  const size_t capacity_;
  NcclConfig config_;
  Stream stream_;

  std::mutex mutex_;  // one call at a time on the communicator; guards all that follows
  NcclComm comm_;
  bool open_ = false;
  std::string doing_;             // what was begun last
  std::deque<void*> registered_;  // handles; NCCL may write one after its call has returned
  std::vector<Moments> moments_;  // a ring
  uint64_t posted_ = 0;           // written by the rank's thread alone, under the mutex
  uint64_t waited_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_COMM_NCCL_NCCL_EDGE_H_
