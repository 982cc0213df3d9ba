#include "tests/comm/tcp/tcp_group.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

namespace sluice {

std::vector<std::unique_ptr<Communicator>> MakeTcpGroup(int ranks, const TcpOptions& options) {
  std::vector<std::unique_ptr<Communicator>> group(static_cast<size_t>(ranks));
  absl::StatusOr<Descriptor> listener = ListenOn(Endpoint::Loopback(0));
  EXPECT_TRUE(listener.ok()) << listener.status();
  if (!listener.ok()) return group;
  const int port = LocalEndpoint(*listener)->port;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Launch launch{.rank = rank, .size = ranks, .address = "127.0.0.1", .port = port};
      auto opened = OpenTcp(launch, options, rank == 0 ? *std::move(listener) : Descriptor());
      EXPECT_TRUE(opened.ok()) << opened.status();
      if (opened.ok()) group[static_cast<size_t>(rank)] = *std::move(opened);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return group;
}

}  // namespace sluice
