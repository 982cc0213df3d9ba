#ifndef SLUICE_TESTS_COMM_DEAF_RANK_H_
#define SLUICE_TESTS_COMM_DEAF_RANK_H_

#include "tests/comm/forwarding_communicator.h"

namespace sluice {

// An end of a group that becomes deaf after the `fails_at`-th time that all ranks have met: the
// others have met it, but it has learnt nothing of them.
class DeafRank : public ForwardingCommunicator {
 public:
  DeafRank(Communicator* inner, int fails_at) : ForwardingCommunicator(inner), left_(fails_at) {}
  Communicator* background() override { return inner().background(); }
  absl::Status AllGather(absl::Span<const double> mine, absl::Span<double> all,
                         Instant deadline) override {
    absl::Status status = inner().AllGather(mine, all, deadline);
    if (status.ok() && --left_ == 0) status = absl::UnavailableError("this rank is deaf");
    return status;
  }

 private:
  int left_;
};

}  // namespace sluice

#endif  // SLUICE_TESTS_COMM_DEAF_RANK_H_
