// Encrypted connections between two ranks, over the loopback interface.
#include "comm/tcp/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using testing::AnyOf;
using testing::Eq;

Instant Soon() { return Instant::Now() + absl::Seconds(60); }

// [0] called, [1] accepted.
std::vector<Descriptor> ConnectedSockets() {
  const Descriptor listener = *ListenOn(Endpoint::Loopback(0));
  std::vector<Descriptor> sockets;
  sockets.push_back(*ConnectTo(*LocalEndpoint(listener), Soon()));
  EXPECT_TRUE(AwaitEvents(listener, POLLIN, Soon()).ok());
  sockets.push_back(*AcceptFrom(listener));
  return sockets;
}

Connection::Key KeyOf(uint8_t byte) {
  Connection::Key key{};
  key.fill(byte);
  return key;
}

// What both sides make of two sockets, which need not be the ends of one connection.
struct Ends {
  absl::StatusOr<Connection> caller, accepted;
};
Ends Encrypted(Descriptor caller, Descriptor accepted, uint8_t other_key = 1,
               uint64_t records = Connection::kRecordsOfAKey) {
  Ends ends;
  std::thread side([&] {
    ends.accepted = Connection::Encrypt(std::move(accepted), Connection::Side::kAccepted,
                                        KeyOf(other_key), Soon(), records);
  });
  ends.caller =
      Connection::Encrypt(std::move(caller), Connection::Side::kCaller, KeyOf(1), Soon(), records);
  side.join();
  return ends;
}

// Sends all bytes in two parts at a time, of random sizes.
void SendParts(Connection& connection, std::string bytes) {
  std::mt19937 random(7);
  for (size_t sent = 0; sent < bytes.size();) {
    const size_t left = bytes.size() - sent;
    const size_t first = std::min<size_t>(random() % 50, left);
    const size_t second = std::min<size_t>(random() % 70'000 + 1, left - first);
    const iovec parts[] = {{.iov_base = &bytes[sent], .iov_len = first},
                           {.iov_base = bytes.data() + sent + first, .iov_len = second}};
    ssize_t got = -1;
    while ((got = connection.Send(parts, 2)) < 0) {
      ASSERT_EQ(errno, EAGAIN);
      ASSERT_TRUE(AwaitEvents(connection.socket(), POLLOUT, Soon()).ok());
    }
    sent += static_cast<size_t>(got);
  }
  connection.FinishSending();
}

std::string ReceiveAll(Connection& connection) {
  std::mt19937 random(8);
  std::string bytes;
  while (true) {
    char part[20'000];
    const ssize_t got = connection.Receive(part, random() % sizeof(part) + 1);
    if (got == 0) return bytes;
    if (got > 0) {
      bytes.append(part, static_cast<size_t>(got));
    } else if (errno != EAGAIN) {
      return "error";
    } else {
      EXPECT_FALSE(connection.has_more()) << "nobody would be woken for it";
      if (!AwaitEvents(connection.socket(), POLLIN, Soon()).ok()) return "silence";
    }
  }
}

std::string Noise(size_t bytes) {
  std::mt19937 random(9);
  std::string noise(bytes, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  return noise;
}

TEST(Connection, CarriesAllBytesBothWaysWithItsKeysChangingOften) {
  std::vector<Descriptor> sockets = ConnectedSockets();
  Ends ends = Encrypted(std::move(sockets[0]), std::move(sockets[1]), 1, 3);
  ASSERT_TRUE(ends.caller.ok()) << ends.caller.status();
  ASSERT_TRUE(ends.accepted.ok()) << ends.accepted.status();
  EXPECT_TRUE(ends.caller->encrypted());
  const std::string there = Noise(3'000'000), back = Noise(1'000'000);
  std::string came, came_back;
  std::vector<std::thread> threads;
  threads.emplace_back([&] { SendParts(*ends.caller, there); });
  threads.emplace_back([&] { came = ReceiveAll(*ends.accepted); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(came == there);
  // A connection is one thread's at a time, as it is the transport's.
  threads.clear();
  threads.emplace_back([&] { SendParts(*ends.accepted, back); });
  threads.emplace_back([&] { came_back = ReceiveAll(*ends.caller); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(came_back == back);
}

TEST(Connection, NeedsTheSameKeyOnBothSides) {
  std::vector<Descriptor> sockets = ConnectedSockets();
  const Ends ends = Encrypted(std::move(sockets[0]), std::move(sockets[1]), 2);
  for (const auto* end : {&ends.caller, &ends.accepted}) {
    EXPECT_THAT(end->status().code(),
                AnyOf(Eq(absl::StatusCode::kInvalidArgument), Eq(absl::StatusCode::kUnavailable)));
  }
}

TEST(Connection, IsNeverLessThanEncrypted) {
  // What another side might say that would rather not encrypt, or only by an older version of TLS.
  for (const std::string words : {"SLUICE, as always", "HTTP/1.1 400 Bad Request\r\n\r\n",
                                  "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03"}) {
    for (const Connection::Side side : {Connection::Side::kCaller, Connection::Side::kAccepted}) {
      std::vector<Descriptor> sockets = ConnectedSockets();
      ASSERT_TRUE(SendAll(sockets[0], words, Soon()).ok());
      (void)shutdown(sockets[0].get(), SHUT_WR);
      EXPECT_FALSE(Connection::Encrypt(std::move(sockets[1]), side, KeyOf(1), Soon()).ok());
    }
  }
}

// Passes on what comes, up to the end, and keeps it; flips a bit of the byte at `flipped`.
std::string PassOn(const Descriptor& from, const Descriptor& to, size_t flipped = ~size_t{0}) {
  std::string all, bytes;
  for (; ReceiveSome(from, 4096, &bytes, Soon()).ok(); bytes.clear()) {
    if (flipped >= all.size() && flipped < all.size() + bytes.size()) {
      bytes[flipped - all.size()] = static_cast<char>(bytes[flipped - all.size()] ^ 4);
    }
    all += bytes;
    if (!SendAll(to, bytes, Soon()).ok()) break;
  }
  (void)shutdown(to.get(), SHUT_WR);
  return all;
}

// Two ends with somebody between them. Returns what the accepted side receives of `message`, and in
// `recorded` what the caller has sent.
std::string ThroughARelay(const std::string& message, size_t flipped, std::string* recorded) {
  std::vector<Descriptor> near = ConnectedSockets(), far = ConnectedSockets();
  std::thread there([&] { *recorded = PassOn(near[1], far[0], flipped); });
  std::thread back([&] { PassOn(far[0], near[1]); });
  Ends ends = Encrypted(std::move(near[0]), std::move(far[1]));
  std::string came = "no connection";
  if (ends.caller.ok() && ends.accepted.ok()) {
    std::thread sender([&] { SendParts(*ends.caller, message); });
    came = ReceiveAll(*ends.accepted);
    sender.join();
  }
  if (ends.caller.ok()) ends.caller->Close();
  if (ends.accepted.ok()) ends.accepted->Close();
  there.join();
  back.join();
  return came;
}

TEST(Connection, NoticesEveryChangeOnTheWay) {
  const std::string message = Noise(200);
  std::string sent;
  ASSERT_EQ(ThroughARelay(message, ~size_t{0}, &sent), message);
  EXPECT_EQ(sent.find(message.substr(0, 8)), std::string::npos) << "encrypted";
  // The bytes of the message, before those that say that it is the last one. Where an earlier byte is
  // changed, both sides may wait for more until their deadline.
  constexpr size_t kEnd = 24;
  for (size_t byte = sent.size() - kEnd - message.size(); byte < sent.size() - kEnd; byte += 3) {
    std::string ignored;
    EXPECT_NE(ThroughARelay(message, byte, &ignored), message) << byte;
  }
}

TEST(Connection, CannotBeReplayed) {
  std::string sent;
  ASSERT_EQ(ThroughARelay("once", ~size_t{0}, &sent), "once");
  std::vector<Descriptor> sockets = ConnectedSockets();
  ASSERT_TRUE(SendAll(sockets[0], sent, Soon()).ok());
  (void)shutdown(sockets[0].get(), SHUT_WR);
  EXPECT_FALSE(
      Connection::Encrypt(std::move(sockets[1]), Connection::Side::kAccepted, KeyOf(1), Soon())
          .ok());
}

}  // namespace
}  // namespace sluice
