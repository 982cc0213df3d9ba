#include "tests/comm/tcp/tcp_group.h"

#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <thread>
#include <utility>

namespace sluice {

std::vector<std::unique_ptr<Communicator>> MakeTcpGroup(int ranks, const TcpOptions& options,
                                                        const std::string& address) {
  std::vector<std::unique_ptr<Communicator>> group(static_cast<size_t>(ranks));
  absl::StatusOr<Descriptor> listener = ListenOn(*Resolve(address, 0));
  EXPECT_TRUE(listener.ok()) << listener.status();
  if (!listener.ok()) return group;
  const int port = LocalEndpoint(*listener)->port;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Launch launch{.rank = rank, .size = ranks, .address = address, .port = port};
      auto opened = OpenTcp(launch, options, rank == 0 ? *std::move(listener) : Descriptor());
      EXPECT_TRUE(opened.ok()) << opened.status();
      if (opened.ok()) group[static_cast<size_t>(rank)] = *std::move(opened);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return group;
}

std::string AddressBeyondLoopback() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, freeifaddrs);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_LOOPBACK) != 0 || (one->ifa_flags & IFF_UP) == 0) continue;
    char text[NI_MAXHOST] = "";
    if (getnameinfo(one->ifa_addr, sizeof(sockaddr_in), text, sizeof(text), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      return text;
    }
  }
  return "";
}

}  // namespace sluice
