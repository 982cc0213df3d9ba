#include "comm/tcp/peer_user.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace sluice {
namespace {

// As Linux prints them: a listener, one that is connected, and one that no process has any more.
constexpr char kIpv4[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 0100007F:98EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 "
    "864675 1 "
    "00000000b6a8ca07 100 0 0 10 0\n"
    "   1: 0100007F:D684 0100007F:98EB 01 00000000:00000000 00:00000000 00000000  1001        0 "
    "864676 2 "
    "00000000c8b66d22 20 0 0 10 -1\n"
    "   2: 0100007F:D685 0100007F:98EB 04 00000001:00000000 01:00000014 00000000     0        0 0 "
    "2 "
    "00000000c8b66d22 20 0 0 10 -1\n";
constexpr char kIpv6[] =
    "  sl  local_address                         remote_address                        st tx_queue "
    "...\n"
    "   0: 00000000000000000000000001000000:CD0E 00000000000000000000000001000000:AD43 01 "
    "00000000:00000000 00:00000000 00000000     7        0 864681 2 00000000d84d6126 20 0 0 10 -1\n"
    "   1: 0000000000000000FFFF00000100007F:E61D 0000000000000000FFFF00000100007F:E2A8 01 "
    "00000000:00000000 00:00000000 00000000     8        0 864685 1 000000000aceb64a 20 0 0 10 "
    "-1\n";

std::optional<uid_t> UserIn(const std::string& text, const Endpoint& local, int remote_port) {
  std::istringstream table(text);
  Endpoint remote = local;
  remote.port = remote_port;
  return UserOfSocket(table, local, remote);
}

TEST(PeerUser, IsThatOfTheSocketWithBothEndpoints) {
  EXPECT_EQ(UserIn(kIpv4, Endpoint::Loopback(0xd684), 0x98eb), 1001);
  EXPECT_EQ(UserIn(kIpv4, Endpoint::Loopback(0xd684), 0x98ec), std::nullopt);
  EXPECT_EQ(UserIn(kIpv4, Endpoint::Loopback(0x98eb), 0xd684), std::nullopt);
  EXPECT_EQ(UserIn(kIpv6, {.address = in6addr_loopback, .port = 0xcd0e}, 0xad43), 7);
  EXPECT_EQ(UserIn(kIpv6, Endpoint::Loopback(0xe61d), 0xe2a8), 8) << "IPv4 over a socket of IPv6";
}

// Linux lists it with root's number.
TEST(PeerUser, IsNobodyForASocketWithoutAProcess) {
  EXPECT_EQ(UserIn(kIpv4, Endpoint::Loopback(0xd685), 0x98eb), std::nullopt);
}

TEST(PeerUser, IsNobodyInATableThatMakesNoSense) {
  const std::string table(kIpv4);
  for (size_t length = 0; length < table.find("1001"); ++length) {
    EXPECT_EQ(UserIn(table.substr(0, length), Endpoint::Loopback(0xd684), 0x98eb), std::nullopt);
  }
  for (const std::string words : {"0: : : 0 0 0 0 1 1 1", "0: 1 2 0 0 0 0 1 1 1",
                                  "0: 0100007F:D6840100007F:98EB 01 0 0 0 0 0 0 0 0"}) {
    EXPECT_EQ(UserIn(words, Endpoint::Loopback(0xd684), 0x98eb), std::nullopt) << words;
  }
}

TEST(PeerUser, OfAConnectionToThisProcessIsItsOwn) {
  const Instant deadline = Instant::Now() + absl::Seconds(60);
  for (const Endpoint& here : {Endpoint::Loopback(0), Endpoint{.address = in6addr_loopback}}) {
    const absl::StatusOr<Descriptor> listener = ListenOn(here);
    if (!listener.ok()) continue;  // a machine without IPv6
    absl::StatusOr<Descriptor> caller = ConnectTo(*LocalEndpoint(*listener), deadline);
    ASSERT_TRUE(caller.ok()) << caller.status();
    ASSERT_TRUE(AwaitEvents(*listener, /*POLLIN*/ 1, deadline).ok());
    const absl::StatusOr<Descriptor> accepted = AcceptFrom(*listener);
    EXPECT_EQ(CheckSameUser(*accepted), absl::OkStatus());
    EXPECT_EQ(CheckSameUser(*caller), absl::OkStatus());
    caller->Close();
    EXPECT_EQ(CheckSameUser(*accepted).code(), absl::StatusCode::kUnavailable);
  }
}

}  // namespace
}  // namespace sluice
