#ifndef SLUICE_TESTS_COMM_FORWARDING_COMMUNICATOR_H_
#define SLUICE_TESTS_COMM_FORWARDING_COMMUNICATOR_H_

#include "comm/communicator.h"

namespace sluice {

// Another communicator, of which a test changes some calls. It has no background.
class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(Communicator* inner) : inner_(*inner) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  absl::Status PostSend(int to, const void* data, size_t bytes, Ticket* ticket) override {
    return inner_.PostSend(to, data, bytes, ticket);
  }
  absl::Status PostReceive(int from, void* data, size_t bytes, Ticket* ticket) override {
    return inner_.PostReceive(from, data, bytes, ticket);
  }
  absl::Status WaitSend(int to, Ticket ticket, Instant deadline) override {
    return inner_.WaitSend(to, ticket, deadline);
  }
  absl::Status WaitReceive(int from, Ticket ticket, Instant deadline) override {
    return inner_.WaitReceive(from, ticket, deadline);
  }
  absl::Status AllGather(absl::Span<const double> mine, absl::Span<double> all,
                         Instant deadline) override {
    return inner_.AllGather(mine, all, deadline);
  }
  absl::Status Barrier(Instant deadline) override { return inner_.Barrier(deadline); }
  void Abort(const absl::Status& status) override { inner_.Abort(status); }
  absl::Status failure() const override { return inner_.failure(); }

 protected:
  Communicator& inner() const { return inner_; }

 private:
  Communicator& inner_;
};

}  // namespace sluice

#endif  // SLUICE_TESTS_COMM_FORWARDING_COMMUNICATOR_H_
