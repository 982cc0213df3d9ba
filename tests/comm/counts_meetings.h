#ifndef SLUICE_TESTS_COMM_COUNTS_MEETINGS_H_
#define SLUICE_TESTS_COMM_COUNTS_MEETINGS_H_

#include <atomic>

#include "tests/comm/forwarding_communicator.h"

namespace sluice {

// Counts how often all ranks have met.
class CountsMeetings : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  absl::Status AllGather(absl::Span<const double> mine, absl::Span<double> all,
                         Instant deadline) override {
    absl::Status status = inner().AllGather(mine, all, deadline);
    ++meetings;
    return status;
  }
  std::atomic<int> meetings{0};
};

}  // namespace sluice

#endif  // SLUICE_TESTS_COMM_COUNTS_MEETINGS_H_
