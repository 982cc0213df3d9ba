// The transports whose ranks can be threads of one process.
#include "tests/comm/conformance.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
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
  TcpRanks(int ranks, const TcpOptions& options, const std::string& address)
      : group_(MakeTcpGroup(ranks, options, address)) {}
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

std::unique_ptr<Ranks> MakeTcpRanks(int ranks, size_t capacity, const std::string& address) {
  return MakeRanks<TcpRanks>(
      ranks, TcpOptions{.secret = "a secret of this test", .capacity = capacity}, address);
}

std::vector<Transport> Transports() {
  std::vector<Transport> transports = {
      {"in_process_spinning",
       [](int ranks, size_t capacity) {
         return MakeRanks<InProcessRanks>(ranks, capacity, absl::Microseconds(20));
       }},
      {"in_process_sleeping",
       [](int ranks, size_t capacity) {
         return MakeRanks<InProcessRanks>(ranks, capacity, absl::ZeroDuration());
       }},
      {"devices",
       [](int ranks, size_t capacity) { return MakeRanks<DeviceRanks>(ranks, capacity); }},
      {.name = "tcp",
       .make = [](int ranks,
                  size_t capacity) { return MakeTcpRanks(ranks, capacity, "127.0.0.1"); },
       .stream_messages = 100'000}};
  if (!AddressBeyondLoopback().empty()) {
    transports.push_back({.name = "tcp_encrypted",
                          .make =
                              [](int ranks, size_t capacity) {
                                return MakeTcpRanks(ranks, capacity, AddressBeyondLoopback());
                              },
                          .stream_messages = 100'000});
  }
  return transports;
}

INSTANTIATE_TEST_SUITE_P(Transports, Conformance, testing::ValuesIn(Transports()), TransportName);

}  // namespace
}  // namespace sluice
