#ifndef SLUICE_COMM_QUEUE_COMMUNICATOR_H_
#define SLUICE_COMM_QUEUE_COMMUNICATOR_H_

#include <vector>

#include "comm/communicator.h"
#include "comm/message_queue.h"
#include "models/device/instant.h"

namespace sluice {

// One thread's communicator over a queue to a transport's thread: messages go through one channel of
// the queue, all-gathers and barriers are messages of another.
class QueueCommunicator : public Communicator {
 public:
  struct Channels {
    int messages = 0;
    int collectives = 0;
  };
  // `queue` must outlive it; it is not used before the first call.
  QueueCommunicator(MessageQueue* queue, Channels channels) : queue_(*queue), channels_(channels) {}

  int rank() const override { return queue_.rank(); }
  int size() const override { return queue_.size(); }
  absl::Status PostSend(int to, const void* data, size_t bytes, Ticket* ticket) override;
  absl::Status PostReceive(int from, void* data, size_t bytes, Ticket* ticket) override;
  absl::Status WaitSend(int to, Ticket ticket, Instant deadline) override;
  absl::Status WaitReceive(int from, Ticket ticket, Instant deadline) override;
  // After one of these two has missed its deadline, all later ones return that error: ranks would
  // no longer agree on which all-gather is which.
  absl::Status AllGather(absl::Span<const double> mine, absl::Span<double> all,
                         Instant deadline) override;
  absl::Status Barrier(Instant deadline) override;
  void Abort(const absl::Status& status) override { queue_.Abort(status); }
  absl::Status failure() const override { return queue_.failure(); }

 private:
  // Gathers `outgoing_` of every rank in `incoming_`.
  absl::Status GatherFromAll(Instant deadline);
  absl::Status PostGather();
  absl::Status WaitGather(Instant deadline);
  // Whether a wait has missed its deadline here, as opposed to that of a rank which has said so.
  bool IsLate(const absl::Status& status) const;

  MessageQueue& queue_;
  const Channels channels_;
  // The messages' memory is here, since a caller whose all-gather was late may go on to free its
  // own.
  std::vector<double> outgoing_, incoming_;
  struct Tickets {
    Ticket sent = 0, received = 0;
  };
  std::vector<Tickets> tickets_;
  absl::Status late_;
};

}  // namespace sluice

#endif  // SLUICE_COMM_QUEUE_COMMUNICATOR_H_
