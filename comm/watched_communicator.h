#ifndef SLUICE_COMM_WATCHED_COMMUNICATOR_H_
#define SLUICE_COMM_WATCHED_COMMUNICATOR_H_

#include "comm/communicator.h"
#include "comm/progress.h"

namespace sluice {

// A communicator whose user's progress is watched: every call notes that the thread has got on, and
// every wait until when it may take. `background` is not watched: another thread uses it.
class WatchedCommunicator : public Communicator {
 public:
  // Both must outlive this.
  WatchedCommunicator(Communicator* watched, Progress* progress)
      : watched_(*watched), progress_(*progress) {}

  int rank() const override { return watched_.rank(); }
  int size() const override { return watched_.size(); }
  absl::Status PostSend(int to, const void* data, size_t bytes, Ticket* ticket) override;
  absl::Status PostReceive(int from, void* data, size_t bytes, Ticket* ticket) override;
  absl::Status WaitSend(int to, Ticket ticket, Instant deadline) override;
  absl::Status WaitReceive(int from, Ticket ticket, Instant deadline) override;
  absl::Status AllGather(absl::Span<const double> mine, absl::Span<double> all,
                         Instant deadline) override;
  absl::Status Barrier(Instant deadline) override;
  Communicator* background() override { return watched_.background(); }
  Progress* progress() override { return &progress_; }
  void Abort(const absl::Status& status) override;
  absl::Status failure() const override { return watched_.failure(); }

 private:
  // What a call has returned.
  absl::Status Noted(absl::Status status);

  Communicator& watched_;
  Progress& progress_;
};

}  // namespace sluice

#endif  // SLUICE_COMM_WATCHED_COMMUNICATOR_H_
