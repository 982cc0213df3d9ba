#ifndef SLUICE_COMM_NCCL_NCCL_COMMUNICATOR_H_
#define SLUICE_COMM_NCCL_NCCL_COMMUNICATOR_H_

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/types/span.h"
#include "comm/device_edge.h"
#include "comm/nccl/nccl.h"
#include "comm/nccl/nccl_edge.h"
#include "models/device/instant.h"

namespace sluice {

using NcclEdges = std::vector<std::unique_ptr<NcclEdge>>;

// Aborts every edge, all at once: an abort gives memory back, which waits for all that its GPU
// runs, and so for messages of edges whose turn would come later (NVIDIA/nccl issue 1013).
void AbortAll(const NcclEdges& edges);

// Polls until what was begun on every edge is done, or `host` has failed.
absl::Status AwaitReady(const NcclEdges& edges, const Communicator& host, Instant deadline);

// ConnectNccl's result: edges that are connected, and a thread that looks after them while the host
// is elsewhere. Nothing else notices that a rank, a wire or another rank's program has failed while
// this rank's thread waits for its device.
class NcclEnd : public NcclCommunicator {
 public:
  // `edges`: this rank's, of both directions, in one order on all ranks.
  NcclEnd(const NcclOptions& options, Communicator* host, Device* device, Stream compute,
          NcclEdges edges);
  // Closes the edges together with the ranks at their other ends; aborts where one has failed or
  // messages are outstanding.
  ~NcclEnd() override;

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  absl::Status PostSend(int to, const void* data, size_t bytes, Ticket* ticket) override;
  absl::Status PostReceive(int from, void* data, size_t bytes, Ticket* ticket) override;
  absl::Status WaitSend(int to, Ticket ticket, Instant deadline) override;
  absl::Status WaitReceive(int from, Ticket ticket, Instant deadline) override;
  absl::Status AllGather(absl::Span<const double> mine, absl::Span<double> all,
                         Instant deadline) override;
  absl::Status Barrier(Instant deadline) override;
  void Abort(const absl::Status& status) override;
  absl::Status failure() const override;
  absl::Status Register(void* data, size_t bytes) override;

 private:
  // A wait that was queued on the compute stream.
  struct Awaited {
    NcclEdge* edge = nullptr;
    Ticket ticket = 0;
    absl::Duration timeout;
    Instant stalled = Instant::InfiniteFuture();  // since when, as far as was seen
  };

  absl::StatusOr<NcclEdge*> EdgeOf(int from, int to) const;
  absl::Status Post(int from, int to, void* data, size_t bytes, Ticket* ticket);
  absl::Status Wait(int from, int to, Ticket ticket, Instant deadline);
  // What all calls return once something has failed: the group's first error.
  absl::Status Settled(const absl::Status& status) const;
  absl::Status CheckNothingIsOutstanding() const;
  absl::Status Close();

  void Watch();
  absl::Status Look();
  absl::Status LookAtWaits();

  Communicator& host_;
  const DeviceEdge::Queue queue_;
  const absl::Duration timeout_;
  NcclEdges edges_;
  std::vector<NcclEdge*> to_;    // [rank], null where there is no edge
  std::vector<NcclEdge*> from_;  // [rank]
  DeviceEdge self_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  absl::Status failure_;
  std::deque<Awaited> waits_;  // in the order of the compute stream
  bool stop_ = false;
  std::thread watch_;  // the last: it uses all of the others
};

}  // namespace sluice

#endif  // SLUICE_COMM_NCCL_NCCL_COMMUNICATOR_H_
