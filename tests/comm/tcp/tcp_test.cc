// One rank of the TCP transport against a peer that the test plays, byte by byte.
#include "comm/tcp/tcp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "comm/tcp/rendezvous/rendezvous.h"
#include "comm/tcp/tcp_frame.h"
#include "models/device/wait_until.h"
#include "tests/comm/tcp/tcp_group.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Instant Soon() { return Instant::Now() + absl::Seconds(60); }

// Rank 0 is real; rank 1 is two sockets of the test.
class TcpAgainstBytes : public testing::Test {
 protected:
  static constexpr absl::Duration kHeartbeat = absl::Milliseconds(10);

  void SetUp() override { Meet(); }

  void Meet() {
    peer_ = TcpLink();  // first, so that the last rank has no peer to shut down with
    rank_.reset();
    absl::StatusOr<Descriptor> listener = ListenOn(Endpoint::Loopback(0));
    Launch launch;
    launch.size = 2;
    launch.address = "127.0.0.1";
    launch.port = LocalEndpoint(*listener)->port;
    std::thread real([&, launch] {
      const TcpOptions options{.heartbeat = kHeartbeat,
                               .shutdown_timeout = absl::Milliseconds(100)};
      auto opened = OpenTcp(launch, options, *std::move(listener));
      ASSERT_TRUE(opened.ok()) << opened.status();
      rank_ = *std::move(opened);
    });
    launch.rank = 1;
    auto links = MeetRanks(launch, "", absl::Seconds(60), {});
    real.join();
    ASSERT_TRUE(links.ok()) << links.status();
    peer_ = std::move((*links)[0]);
  }

  static void Send(const Descriptor& socket, const Frame& frame, const std::string& body = "") {
    std::string bytes(reinterpret_cast<const char*>(&frame), sizeof(frame));
    bytes += body;
    EXPECT_TRUE(SendAll(socket, bytes, Soon()).ok());
  }

  // The error of rank 0 when it waits for a message of rank 1.
  absl::Status Receive(Instant deadline = Soon()) {
    Ticket ticket = 0;
    absl::Status status = rank_->PostReceive(1, &word_, sizeof(word_), &ticket);
    return status.ok() ? rank_->WaitReceive(1, ticket, deadline) : status;
  }
  std::string ReceiveError() { return std::string(Receive().message()); }

  std::unique_ptr<Communicator> rank_;
  TcpLink peer_;
  int32_t word_ = 0;
};

constexpr char kWord[] = "abcd";

TEST_F(TcpAgainstBytes, AMessageInPiecesIsAMessage) {
  const Frame frame{.kind = FrameKind::kData, .bytes = 4};
  std::string bytes(reinterpret_cast<const char*>(&frame), sizeof(frame));
  bytes += kWord;
  std::thread sender([&] {
    // After the message has been asked for.
    std::string asked;
    while (asked.find('\2') == std::string::npos) {
      if (!ReceiveSome(peer_.control.socket(), 24, &asked, Soon()).ok()) return;
    }
    for (const char byte : bytes) {
      EXPECT_TRUE(SendAll(peer_.data.socket(), {&byte, 1}, Soon()).ok());
      absl::SleepFor(absl::Microseconds(200));
    }
  });
  EXPECT_TRUE(Receive().ok());
  sender.join();
  EXPECT_EQ(word_, 0x64636261);
}

TEST_F(TcpAgainstBytes, AMessageThatNobodyAskedForIsAnError) {
  Send(peer_.data.socket(), {.kind = FrameKind::kData, .bytes = 4}, kWord);
  // Whether the bytes come before or after the receive is posted: the ticket or the size is wrong.
  Ticket ticket = 0;
  absl::Status status;
  while (status.ok()) {
    status = rank_->PostReceive(1, &word_, 2, &ticket);
    if (status.ok()) status = rank_->WaitReceive(1, ticket, Soon());
  }
  EXPECT_THAT(std::string(status.message()), HasSubstr("that no receive of rank 0 has asked for"));
}

TEST_F(TcpAgainstBytes, AReceiveOfAnotherSizeIsAnErrorOnTheSendersSide) {
  Send(peer_.control.socket(), {.kind = FrameKind::kReady, .bytes = 60});
  const std::vector<char> data(100);
  Ticket ticket = 0;
  absl::Status status = rank_->PostSend(1, data.data(), data.size(), &ticket);
  if (status.ok()) status = rank_->WaitSend(1, ticket, Soon());
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("sent 100 bytes"), HasSubstr("expected 60")));
}

TEST_F(TcpAgainstBytes, NonsenseOnTheControlConnectionIsAnError) {
  for (const Frame& frame :
       {Frame{.kind = static_cast<FrameKind>(77)}, Frame{.kind = FrameKind::kReady, .channel = 9},
        Frame{.kind = FrameKind::kAbort, .bytes = 1ULL << 60U},
        Frame{.kind = FrameKind::kHeartbeat, .ticket = 3}}) {
    Send(peer_.control.socket(), frame);
    EXPECT_THAT(ReceiveError(), HasSubstr("rank 1 is gone (it sent bytes that make no sense)"));
    Meet();
  }
}

TEST_F(TcpAgainstBytes, RandomBytesEndInAnErrorOrADeadline) {
  std::mt19937 random(5);
  for (int trial = 0; trial < Trials(60, 15); ++trial) {
    std::string bytes(random() % 300 + 24, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() % (trial % 2 == 0 ? 256 : 8));
    (void)SendAll((trial % 3 == 0 ? peer_.data : peer_.control).socket(), bytes, Soon());
    EXPECT_FALSE(Receive(Instant::Now() + absl::Milliseconds(5)).ok());
    rank_->Abort(absl::CancelledError("next"));
    Meet();
  }
}

TEST_F(TcpAgainstBytes, AnAbortHasAnyWords) {
  const std::string words(4096, 'x');
  const std::string body = "\n" + words;
  Send(peer_.control.socket(), {.kind = FrameKind::kAbort, .ticket = 5, .bytes = body.size()},
       body);
  const absl::Status status = Receive();
  EXPECT_EQ(status, absl::NotFoundError(words));
}

TEST_F(TcpAgainstBytes, AnAbortDoesNotCommandTheTerminal) {
  const std::string body = "\n\x1b]0;title\a";
  Send(peer_.control.socket(), {.kind = FrameKind::kAbort, .ticket = 5, .bytes = body.size()},
       body);
  EXPECT_EQ(Receive(), absl::NotFoundError("\uFFFD]0;title\uFFFD"));
}

TEST_F(TcpAgainstBytes, AnAbortIsNeverOk) {
  Send(peer_.control.socket(), {.kind = FrameKind::kAbort, .ticket = 0});
  EXPECT_EQ(Receive().code(), absl::StatusCode::kUnknown);
}

TEST_F(TcpAgainstBytes, EndsOfConnections) {
  peer_.control.Close();
  EXPECT_EQ(ReceiveError(), "rank 1 is gone (connection closed)");
  Meet();
  peer_.data.Close();  // this alone may still become a shutdown
  EXPECT_EQ(Receive(Instant::Now() + absl::Milliseconds(20)).code(),
            absl::StatusCode::kDeadlineExceeded);
  peer_.control.Close();
  EXPECT_EQ(ReceiveError(), "rank 1 is gone (connection closed)");
}

TEST_F(TcpAgainstBytes, ARankKnowsOfAFailureOnceItSaysSo) {
  const auto send_abort = [this] {
    Send(peer_.control.socket(), {.kind = FrameKind::kAbort, .ticket = 14});
  };
  rank_->Abort(absl::UnavailableError("rank 2 is gone"));
  EXPECT_TRUE(rank_->KnowsOfFailure(0, Soon()));
  EXPECT_FALSE(rank_->KnowsOfFailure(1, Instant::Now() + absl::Milliseconds(1))) << "it is silent";
  send_abort();
  EXPECT_TRUE(rank_->KnowsOfFailure(1, Soon()));
  peer_.control.Close();
  EXPECT_TRUE(rank_->KnowsOfFailure(1, Soon())) << "it has ended after that";
  Meet();
  peer_.control.Close();
  EXPECT_FALSE(rank_->KnowsOfFailure(1, Soon())) << "it is gone";
  Meet();
  Send(peer_.control.socket(), {.kind = FrameKind::kShutdown});
  send_abort();
  EXPECT_FALSE(rank_->KnowsOfFailure(1, Soon())) << "it had left before";
}

TEST_F(TcpAgainstBytes, AShutdownEndsWhatWasExpected) {
  Send(peer_.control.socket(), {.kind = FrameKind::kShutdown});
  peer_.data.Close();
  EXPECT_THAT(ReceiveError(), HasSubstr("rank 1 has left"));
}

TEST_F(TcpAgainstBytes, ASilentPeerIsSaidToBeSilent) {
  SleepUntil(Instant::Now() + 5 * kHeartbeat);
  const absl::Status status = Receive(Instant::Now() + absl::Milliseconds(20));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("nothing has been heard of rank 1"), HasSubstr("cut off")));
}

TEST_F(TcpAgainstBytes, APeerThatIsHeardOfIsSaidToBe) {
  std::atomic<bool> stop{false};
  std::thread heart([&] {
    while (!stop) {
      Send(peer_.control.socket(), {.kind = FrameKind::kHeartbeat});
      absl::SleepFor(absl::Milliseconds(2));
    }
  });
  std::string words;
  // On a slow machine a peer may be silent for a while: one of these errors is enough.
  for (int i = 0; i < 1000 && words.find("was heard of") == std::string::npos; ++i) {
    words = std::string(Receive(Instant::Now() + absl::Milliseconds(6)).message());
  }
  stop = true;
  heart.join();
  EXPECT_THAT(words, HasSubstr("rank 1 was heard of"));
}

// Between machines the frames are encrypted: somebody on the way can only make them unreadable.
TEST(TcpEncrypted, WhatIsChangedOnTheWayEndsTheRun) {
  const std::string address = AddressBeyondLoopback();
  if (address.empty()) GTEST_SKIP() << "this machine has only a loopback interface";
  const std::string secret = "a secret of this test";
  for (const bool data : {false, true}) {
    absl::StatusOr<Descriptor> listener = ListenOn(Endpoint::AnyIpv6(0));
    const Launch launch{.size = 2, .address = address, .port = LocalEndpoint(*listener)->port};
    std::unique_ptr<Communicator> rank;
    std::thread real([&] {
      const TcpOptions options{.secret = secret, .shutdown_timeout = absl::Milliseconds(9)};
      rank = *OpenTcp(launch, options, *std::move(listener));
    });
    Launch other = launch;
    other.rank = 1;
    const std::vector<TcpLink> links = *MeetRanks(other, secret, absl::Seconds(60), {});
    real.join();
    const Connection& changed = data ? links[0].data : links[0].control;
    ASSERT_TRUE(changed.encrypted());
    const Frame frame{.kind = FrameKind::kShutdown};
    const std::string bytes(reinterpret_cast<const char*>(&frame), sizeof(frame));
    ASSERT_TRUE(SendAll(changed.socket(), bytes, Soon()).ok());
    int32_t word = 0;
    Ticket ticket = 0;
    absl::Status status = rank->PostReceive(1, &word, sizeof(word), &ticket);
    if (status.ok()) status = rank->WaitReceive(1, ticket, Soon());
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("rank 1"), HasSubstr("were changed on the way")));
  }
}

// Three ranks, one of which is silent: a rank that waits for another learns which rank is the
// cause.
TEST(TcpHealth, WhoIsSilentIsNamedByThoseWhoWaitForOthers) {
  absl::StatusOr<Descriptor> listener = ListenOn(Endpoint::Loopback(0));
  const int port = LocalEndpoint(*listener)->port;
  const auto launch_of = [port](int rank) {
    Launch launch;
    launch.rank = rank;
    launch.size = 3;
    launch.address = "127.0.0.1";
    launch.port = port;
    return launch;
  };
  const TcpOptions options{.heartbeat = absl::Milliseconds(100),
                           .shutdown_timeout = absl::Milliseconds(9)};
  std::vector<TcpLink> silent;
  std::unique_ptr<Communicator> last;
  std::thread one([&] { silent = *MeetRanks(launch_of(1), "", absl::Seconds(60), {}); });
  std::thread two([&] { last = *OpenTcp(launch_of(2), options); });
  const auto first = *OpenTcp(launch_of(0), options, *std::move(listener));
  one.join();
  two.join();
  SleepUntil(Instant::Now() + 5 * options.heartbeat);
  char byte = 0;
  Ticket ticket = 0;
  ASSERT_TRUE(first->PostReceive(2, &byte, 1, &ticket).ok());
  const auto both_are_named =
      AllOf(HasSubstr("rank 2 was heard of"), HasSubstr("nothing has been heard of rank 1 for"),
            HasSubstr("cut off"));
  std::string words;
  // On a loaded machine rank 2 may be silent for a while, too: once is enough.
  for (const Instant end = Soon();
       !testing::Matches(both_are_named)(words) && Instant::Now() < end;) {
    const absl::Status status =
        first->WaitReceive(2, ticket, Instant::Now() + absl::Milliseconds(10));
    ASSERT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    words = std::string(status.message());
  }
  EXPECT_THAT(words, both_are_named);
}

// Rank 0 is real, ranks 1 and 2 are sockets, and heartbeats are an hour apart: nothing here depends
// on the speed of the machine.
TEST(TcpHealth, AHealthyRankThatWaitsForOneThatIsCutOffIsNotBlamed) {
  absl::StatusOr<Descriptor> listener = ListenOn(Endpoint::Loopback(0));
  Launch launch;
  launch.size = 3;
  launch.address = "127.0.0.1";
  launch.port = LocalEndpoint(*listener)->port;
  std::vector<TcpLink> links[3];
  std::vector<std::thread> played;
  for (int rank = 1; rank < 3; ++rank) {
    Launch own = launch;
    own.rank = rank;
    played.emplace_back(
        [own, &links] { links[own.rank] = *MeetRanks(own, "", absl::Seconds(60), {}); });
  }
  const TcpOptions options{.heartbeat = absl::Hours(1), .shutdown_timeout = absl::Milliseconds(9)};
  const auto first = *OpenTcp(launch, options, *std::move(listener));
  for (std::thread& thread : played) thread.join();
  const Descriptor& control = links[2][0].control.socket();
  const auto send = [&control](const Frame& frame) {
    const std::string bytes(reinterpret_cast<const char*>(&frame), sizeof(frame));
    ASSERT_TRUE(SendAll(control, bytes, Soon()).ok());
  };
  // Rank 2 waits for rank 1, of which it has heard nothing for five hours.
  send({.kind = FrameKind::kHeartbeat, .ticket = 2, .bytes = uint64_t{5} * 3'600'000});
  send({.kind = FrameKind::kReady, .bytes = 1});
  char byte = 0;
  Ticket ticket = 0;
  ASSERT_TRUE(first->PostSend(2, &byte, 1, &ticket).ok());
  ASSERT_TRUE(first->WaitSend(2, ticket, Soon()).ok());  // rank 0 has read the heartbeat
  ASSERT_TRUE(first->PostReceive(2, &byte, 1, &ticket).ok());
  const absl::Status status = first->WaitReceive(2, ticket, Instant::InfinitePast());
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("and waits for rank 1"),
                    HasSubstr("rank 2 has heard nothing of rank 1 for 18000000 ms: it is stopped "
                              "or cut off")));
}

TEST_F(TcpAgainstBytes, ShutdownDoesNotWaitForAPeerThatDoesNotListen) {
  rank_.reset();  // returns, though nobody reads what it says
}

}  // namespace
}  // namespace sluice
