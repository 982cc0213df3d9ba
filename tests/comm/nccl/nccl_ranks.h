#ifndef SLUICE_TESTS_COMM_NCCL_NCCL_RANKS_H_
#define SLUICE_TESTS_COMM_NCCL_NCCL_RANKS_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "comm/local/in_process.h"
#include "comm/nccl/nccl.h"
#include "tests/comm/conformance.h"
#include "tests/comm/nccl/fake_nccl.h"
#include "tests/models/fake_device.h"

namespace sluice {

// Every pair of different ranks.
std::vector<std::pair<int, int>> AllEdges(int ranks);

// Ranks as threads, each on its own FakeDevice, connected by a FakeNccl.
class NcclRanks : public Ranks {
 public:
  struct Options {
    int ranks = 2;
    size_t capacity = 64;
    FakeNccl::Options nccl = {};
    absl::Duration longest_pause = absl::ZeroDuration();  // of the devices' streams
    absl::Duration timeout = absl::Seconds(60);
    std::vector<std::pair<int, int>> edges = {};  // empty: all
    std::vector<int> ordinals = {};               // [rank]; empty: the rank's number
    std::vector<std::string> hosts = {};          // [rank]; empty: all the same
  };
  struct Rank {
    Communicator& communicator;
    FakeDevice& device;
    Stream compute;
  };
  explicit NcclRanks(const Options& options);

  FakeNccl& nccl() { return nccl_; }
  InProcessGroup& host() { return host_; }

  // A wait lasts until the device has done the work, as the conformance suite expects.
  void Run(const std::function<void(Communicator&)>& body) override;
  // Connects, runs `body` and closes. Returns the errors of connecting, by rank.
  std::vector<absl::Status> RunOnDevices(const std::function<void(const Rank&)>& body);

 private:
  NcclOptions OptionsOf(int rank);

  const Options options_;
  InProcessGroup host_;
  FakeNccl nccl_;
  std::vector<std::unique_ptr<FakeDevice>> devices_;
};

}  // namespace sluice

#endif  // SLUICE_TESTS_COMM_NCCL_NCCL_RANKS_H_
