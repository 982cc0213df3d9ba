// The transports whose ranks can be threads of one process.
#include "tests/comm/conformance.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "comm/device_group.h"
#include "comm/local/in_process.h"
#include "tests/comm/tcp/tcp_group.h"

namespace sluice {
namespace {

class InProcessRanks : public Ranks {
 public:
  InProcessRanks(int ranks, size_t capacity, absl::Duration spin)
      : ranks_(ranks), group_(ranks, capacity, spin) {}
  void Run(const std::function<void(Communicator&)>& body) override {
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks_; ++r) threads.emplace_back([&, r] { body(group_.communicator(r)); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  int ranks_;
  InProcessGroup group_;
};

class TcpRanks : public Ranks {
 public:
  TcpRanks(int ranks, const TcpOptions& options) : group_(MakeTcpGroup(ranks, options)) {}
  void Run(const std::function<void(Communicator&)>& body) override {
    std::vector<std::thread> threads;
    for (auto& end : group_) {
      if (end != nullptr) threads.emplace_back([&] { body(*end); });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<std::unique_ptr<Communicator>> group_;
};

// Ranks whose messages are ordered on a device's streams. The CPU's device, so that tests can use
// its memory directly.
class DeviceRanks : public Ranks {
 public:
  DeviceRanks(int ranks, size_t capacity)
      : host_(ranks, capacity, absl::ZeroDuration()), group_(ranks, capacity) {
    for (int r = 0; r < ranks; ++r)
      ends_.push_back(group_.Join(r, &CpuDevice(), Stream{}, &host_.communicator(r)));
  }
  void Run(const std::function<void(Communicator&)>& body) override {
    std::vector<std::thread> threads;
    for (auto& end : ends_) threads.emplace_back([&] { body(*end); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  InProcessGroup host_;
  DeviceGroup group_;
  std::vector<std::unique_ptr<Communicator>> ends_;
};

template <typename Group, typename... Arguments>
std::unique_ptr<Ranks> MakeRanks(Arguments... arguments) {
  return std::make_unique<Group>(arguments...);
}

INSTANTIATE_TEST_SUITE_P(Transports, Conformance,
                         testing::Values(Transport{"in_process_spinning",
                                                   [](int ranks, size_t capacity) {
                                                     return MakeRanks<InProcessRanks>(
                                                         ranks, capacity, absl::Microseconds(20));
                                                   }},
                                         Transport{"in_process_sleeping",
                                                   [](int ranks, size_t capacity) {
                                                     return MakeRanks<InProcessRanks>(
                                                         ranks, capacity, absl::ZeroDuration());
                                                   }},
                                         Transport{"devices",
                                                   [](int ranks, size_t capacity) {
                                                     return MakeRanks<DeviceRanks>(ranks, capacity);
                                                   }},
                                         Transport{.name = "tcp",
                                                   .make =
                                                       [](int ranks, size_t capacity) {
                                                         return MakeRanks<TcpRanks>(
                                                             ranks,
                                                             TcpOptions{.secret = "a secret",
                                                                        .capacity = capacity});
                                                       },
                                                   .stream_messages = 100'000}),
                         TransportName);

}  // namespace
}  // namespace sluice
