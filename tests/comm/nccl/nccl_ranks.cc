#include "tests/comm/nccl/nccl_ranks.h"

#include <thread>

#include "tests/comm/forwarding_communicator.h"

namespace sluice {
namespace {

class Synchronous : public ForwardingCommunicator {
 public:
  explicit Synchronous(const NcclRanks::Rank& rank)
      : ForwardingCommunicator(&rank.communicator), rank_(rank) {}
  absl::Status WaitSend(int to, Ticket ticket, Instant deadline) override {
    return Finish(inner().WaitSend(to, ticket, deadline));
  }
  absl::Status WaitReceive(int from, Ticket ticket, Instant deadline) override {
    return Finish(inner().WaitReceive(from, ticket, deadline));
  }

 private:
  // The transport must end what is late: the device always gets that far.
  absl::Status Finish(const absl::Status& queued) {
    if (!queued.ok()) return queued;
    absl::Status done = rank_.device.Synchronize(rank_.compute, Instant::InfiniteFuture());
    absl::Status failed = inner().failure();
    return failed.ok() ? done : failed;
  }

  const NcclRanks::Rank rank_;
};

}  // namespace

std::vector<std::pair<int, int>> AllEdges(int ranks) {
  std::vector<std::pair<int, int>> edges;
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      if (from != to) edges.emplace_back(from, to);
    }
  }
  return edges;
}

NcclRanks::NcclRanks(const Options& options)
    : options_(options),
      host_(options.ranks, options.capacity, absl::ZeroDuration()),
      nccl_(options.nccl) {
  for (int rank = 0; rank < options.ranks; ++rank) {
    devices_.push_back(std::make_unique<FakeDevice>(FakeDevice::Options{
        .seed = static_cast<uint64_t>(rank) + 1, .longest_pause = options.longest_pause}));
  }
}

NcclOptions NcclRanks::OptionsOf(int rank) {
  const auto r = static_cast<size_t>(rank);
  return {.nccl = &nccl_,
          .ordinal = options_.ordinals.empty() ? rank : options_.ordinals[r],
          .edges = options_.edges.empty() ? AllEdges(options_.ranks) : options_.edges,
          .capacity = options_.capacity,
          .timeout = options_.timeout,
          .host = options_.hosts.empty() ? "a host" : options_.hosts[r]};
}

std::vector<absl::Status> NcclRanks::RunOnDevices(const std::function<void(const Rank&)>& body) {
  std::vector<absl::Status> connected(static_cast<size_t>(options_.ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto r = static_cast<size_t>(rank);
      FakeDevice& device = *devices_[r];
      const absl::StatusOr<Stream> compute = device.NewStream();
      ASSERT_TRUE(compute.ok());
      auto end = ConnectNccl(OptionsOf(rank), &host_.communicator(rank), &device, *compute);
      connected[r] = end.status();
      if (end.ok()) body({.communicator = **end, .device = device, .compute = *compute});
    });
  }
  for (std::thread& thread : threads) thread.join();
  return connected;
}

void NcclRanks::Run(const std::function<void(Communicator&)>& body) {
  for (const absl::Status& status : RunOnDevices([&body](const Rank& rank) {
         Synchronous end(rank);
         body(end);
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(nccl_.open(), 0);
}

}  // namespace sluice
