// The NCCL transport over a fake NCCL and fake GPUs made of threads: the order that it keeps, and
// what it does when something fails. The conformance suite runs over it too.
#include "comm/nccl/nccl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "absl/time/clock.h"
#include "tests/comm/conformance.h"
#include "tests/comm/nccl/nccl_ranks.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

template <int kSeed>
std::unique_ptr<Ranks> MakeNccl(int ranks, size_t capacity) {
  return std::make_unique<NcclRanks>(NcclRanks::Options{
      .ranks = ranks,
      .capacity = capacity,
      .nccl = {.seed = kSeed, .late_one_in = kSeed == 0 ? 0 : 3},
      .longest_pause = kSeed == 0 ? absl::ZeroDuration() : absl::Microseconds(50)});
}

INSTANTIATE_TEST_SUITE_P(Transports, Conformance,
                         testing::Values(Transport{.name = "nccl",
                                                   .make = MakeNccl<0>,
                                                   .checks_sizes = false,
                                                   .stream_messages = 10'000},
                                         Transport{.name = "nccl_late",
                                                   .make = MakeNccl<7>,
                                                   .checks_sizes = false,
                                                   .stream_messages = 2'000}),
                         TransportName);

Instant Soon() { return Instant::Now() + absl::Seconds(60); }

// Device memory of ints that a test can read.
class Ints {
 public:
  Ints(FakeDevice& device, size_t count)
      : memory_(*device.Allocate(static_cast<int64_t>(count * sizeof(int)))) {}
  int* at(size_t i) { return static_cast<int*>(static_cast<void*>(memory_.data())) + i; }

 private:
  DeviceMemory memory_;
};

// A whole chain of work is queued at once, before any of it is done: each message leaves only once
// it has been computed, is used only once it has arrived, and its memory is used again only once it
// has left. The host waits once, at the end.
TEST(Nccl, MessagesAreOrderedAmongTheWorkOfBothRanks) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    constexpr int kRounds = 40;
    NcclRanks ranks({.ranks = 3,
                     .capacity = size_t{2} * kRounds,
                     .nccl = {.seed = seed},
                     .longest_pause = absl::Microseconds(200)});
    const auto statuses = ranks.RunOnDevices([](const NcclRanks::Rank& rank) {
      Communicator& group = rank.communicator;
      const int next = (group.rank() + 1) % 3;
      const int before = (group.rank() + 2) % 3;
      Ints memory(rank.device, 2);
      int* in = memory.at(0);
      int* out = memory.at(1);
      const int self = group.rank();
      FakeDevice::Queue(rank.compute, [out, self] { *out = 100 * self; });
      for (int round = 0; round < kRounds; ++round) {
        Ticket sent = 0;
        Ticket received = 0;
        ASSERT_TRUE(group.PostReceive(before, in, sizeof(int), &received).ok());
        ASSERT_TRUE(group.PostSend(next, out, sizeof(int), &sent).ok());
        ASSERT_TRUE(group.WaitReceive(before, received, Soon()).ok());
        ASSERT_TRUE(group.WaitSend(next, sent, Soon()).ok());
        FakeDevice::Queue(rank.compute, [in, out] { *out = *in + 1; });
      }
      ASSERT_TRUE(rank.device.Synchronize(rank.compute, Soon()).ok());
      EXPECT_TRUE(group.failure().ok()) << group.failure();
      // The values that this rank has now began kRounds ranks before it.
      const int origin = ((self - kRounds) % 3 + 3) % 3;
      EXPECT_EQ(*out, 100 * origin + kRounds);
    });
    for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(ranks.nccl().open(), 0);
    EXPECT_EQ(ranks.nccl().aborted(), 0);
  }
}

// The fake fails if memory is freed before the edges have deregistered it, and if edges are
// destroyed before that.
TEST(Nccl, MemoryCanBeRegistered) {
  NcclRanks ranks({});
  ranks.RunOnDevices([](const NcclRanks::Rank& rank) {
    Ints memory(rank.device, 2), more(rank.device, 1);
    auto& end = dynamic_cast<NcclCommunicator&>(rank.communicator);
    ASSERT_TRUE(end.Register(memory.at(0), 2 * sizeof(int)).ok());
    ASSERT_TRUE(end.Register(more.at(0), sizeof(int)).ok());
    Ticket ticket = 0;
    if (end.rank() == 0) {
      ASSERT_TRUE(end.PostSend(1, memory.at(0), sizeof(int), &ticket).ok());
      ASSERT_TRUE(end.WaitSend(1, ticket, Soon()).ok());
    } else {
      ASSERT_TRUE(end.PostReceive(0, memory.at(0), sizeof(int), &ticket).ok());
      ASSERT_TRUE(end.WaitReceive(0, ticket, Soon()).ok());
    }
    EXPECT_TRUE(rank.device.Synchronize(rank.compute, Soon()).ok());
  });
  EXPECT_EQ(ranks.nccl().registered(), 2 * 2 * 2);  // by both ends of both edges
  EXPECT_EQ(ranks.nccl().aborted(), 0);
  EXPECT_LE(ranks.nccl().max_ctas(), 4);
}

TEST(Nccl, AnEdgeThatWasNotNamedIsAnError) {
  NcclRanks ranks({.ranks = 3, .edges = {{0, 1}, {1, 2}}});
  ranks.RunOnDevices([](const NcclRanks::Rank& rank) {
    if (rank.communicator.rank() != 0) return;
    Ticket ticket = 0;
    int value = 0;
    const absl::Status status = rank.communicator.PostSend(2, &value, sizeof(int), &ticket);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("from rank 0 to rank 2"));
    EXPECT_EQ(rank.communicator.PostSend(3, &value, sizeof(int), &ticket).code(),
              absl::StatusCode::kInvalidArgument);
  });
}

TEST(Nccl, TwoRanksOnOneGpuAreToldSo) {
  NcclRanks ranks({.ranks = 3, .ordinals = {0, 3, 3}});
  for (const absl::Status& status : ranks.RunOnDevices([](const NcclRanks::Rank&) { FAIL(); })) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("ranks 1 and 2 are both on GPU 3"), HasSubstr("inprocess"),
                      HasSubstr("NCCL_HOSTID")));
  }
}

TEST(Nccl, TwoRanksOnOneGpuMayBeTwoHosts) {
  NcclRanks ranks({.ordinals = {3, 3}, .hosts = {"one", "two"}});
  for (const absl::Status& status : ranks.RunOnDevices([](const NcclRanks::Rank&) {}))
    EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(ranks.nccl().aborted(), 0);
}

TEST(Nccl, AnEdgeThatDoesNotConnectIsADeadline) {
  NcclRanks ranks({.ranks = 3, .timeout = absl::Seconds(2)});
  ranks.nccl().Hang("1>2");
  const auto statuses = ranks.RunOnDevices([](const NcclRanks::Rank& rank) {
    // All of its edges connect; it learns of the other ranks' failure, however long that takes.
    while (rank.communicator.failure().ok()) std::this_thread::yield();
    EXPECT_THAT(std::string(rank.communicator.failure().message()),
                HasSubstr("from rank 1 to rank 2"));
  });
  for (const int rank : {1, 2}) {
    const absl::Status& status = statuses[static_cast<size_t>(rank)];
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("from rank 1 to rank 2"));
  }
  EXPECT_EQ(ranks.nccl().open(), 0);
}

TEST(Nccl, ARankThatNeverComesIsADeadline) {
  InProcessGroup host(2, 16, absl::ZeroDuration());
  FakeNccl nccl;
  FakeDevice device;
  const auto end = ConnectNccl(
      {.nccl = &nccl, .edges = AllEdges(2), .timeout = absl::Milliseconds(30), .host = "a host"},
      &host.communicator(0), &device, *device.NewStream());
  EXPECT_EQ(end.status().code(), absl::StatusCode::kDeadlineExceeded) << end.status();
}

// An error that NCCL reports while every rank's thread waits for its device ends all of them.
TEST(Nccl, AnErrorOfNcclEndsAllQueuedWork) {
  for (const NcclResult result : {NcclResult::kRemoteError, NcclResult::kInvalidUsage}) {
    NcclRanks ranks({.ranks = 3});
    ranks.RunOnDevices([&](const NcclRanks::Rank& rank) {
      Communicator& group = rank.communicator;
      Ints memory(rank.device, 1);
      Ticket ticket = 0;
      const int before = (group.rank() + 2) % 3;
      ASSERT_TRUE(group.PostReceive(before, memory.at(0), sizeof(int), &ticket).ok());
      ASSERT_TRUE(group.WaitReceive(before, ticket, Soon()).ok());
      ASSERT_TRUE(group.Barrier(Soon()).ok());
      if (group.rank() == 0) ranks.nccl().Fail("0>1", result);
      EXPECT_TRUE(rank.device.Synchronize(rank.compute, Soon()).ok());
      const absl::Status status = group.failure();
      EXPECT_EQ(status.code(), result == NcclResult::kRemoteError ? absl::StatusCode::kUnavailable
                                                                  : absl::StatusCode::kInternal);
      EXPECT_THAT(std::string(status.message()), HasSubstr("from rank 0 to rank 1"));
      EXPECT_EQ(group.Barrier(Soon()), status);
      EXPECT_EQ(group.PostSend(before, memory.at(0), sizeof(int), &ticket), status);
    });
    EXPECT_EQ(ranks.nccl().open(), 0);
  }
}

// The time limit of a rank that waits counts from the moment at which its device began to wait, not
// from the call: the work queued before may take longer than the limit.
TEST(Nccl, OnlyTheDevicesWaitCounts) {
  NcclRanks ranks({});
  std::atomic<bool> sent = false;
  ranks.RunOnDevices([&sent](const NcclRanks::Rank& rank) {
    Communicator& group = rank.communicator;
    Ints memory(rank.device, 1);
    Ticket ticket = 0;
    if (group.rank() == 0) {
      ASSERT_TRUE(group.PostReceive(1, memory.at(0), sizeof(int), &ticket).ok());
      FakeDevice::Queue(rank.compute, [&sent] {
        while (!sent.load()) std::this_thread::yield();
        absl::SleepFor(absl::Milliseconds(200));
      });
      // Queued long before its turn, with a time limit that is over by then.
      ASSERT_TRUE(group.WaitReceive(1, ticket, Instant::Now() + absl::Milliseconds(100)).ok());
    } else {
      ASSERT_TRUE(group.PostSend(0, memory.at(0), sizeof(int), &ticket).ok());
      ASSERT_TRUE(group.WaitSend(0, ticket, Soon()).ok());
    }
    EXPECT_TRUE(rank.device.Synchronize(rank.compute, Soon()).ok());
    if (group.rank() == 1) sent.store(true);
    EXPECT_TRUE(group.failure().ok()) << group.failure();
  });
}

TEST(Nccl, AMessageThatIsLateIsNamedThoughOthersWaitBehindIt) {
  NcclRanks ranks({.ranks = 3});
  ranks.RunOnDevices([](const NcclRanks::Rank& rank) {
    Communicator& group = rank.communicator;
    Ints memory(rank.device, 4);
    Ticket ticket = 0;
    if (group.rank() == 0) {
      for (size_t i = 0; i < 2; ++i) {
        ASSERT_TRUE(group.PostReceive(1, memory.at(i), sizeof(int), &ticket).ok());
        ASSERT_TRUE(group.WaitReceive(1, ticket, Instant::Now() + absl::Milliseconds(50)).ok());
      }
      ASSERT_TRUE(group.PostReceive(2, memory.at(2), sizeof(int), &ticket).ok());
      ASSERT_TRUE(group.WaitReceive(2, ticket, Instant::Now() + absl::Milliseconds(50)).ok());
    } else if (group.rank() == 1) {  // sends one of two messages
      ASSERT_TRUE(group.PostSend(0, memory.at(0), sizeof(int), &ticket).ok());
    }
    EXPECT_TRUE(rank.device.Synchronize(rank.compute, Soon()).ok());
    while (group.failure().ok()) std::this_thread::yield();
    EXPECT_EQ(group.failure().code(), absl::StatusCode::kDeadlineExceeded);
    // On a slow machine the first message may be late.
    EXPECT_THAT(std::string(group.failure().message()),
                AllOf(HasSubstr("from rank 1 to rank 0 did not arrive in time"),
                      AnyOf(HasSubstr("message 1"), HasSubstr("message 0"))));
  });
}

TEST(Nccl, AnyThreadsMayAbortAtOnce) {
  NcclRanks ranks({.ranks = 3});
  ranks.RunOnDevices([](const NcclRanks::Rank& rank) {
    Communicator& group = rank.communicator;
    Ints memory(rank.device, 1);
    Ticket ticket = 0;
    ASSERT_TRUE(group.PostReceive((group.rank() + 1) % 3, memory.at(0), 4, &ticket).ok());
    ASSERT_TRUE(group.Barrier(Soon()).ok());
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&group] { group.Abort(absl::CancelledError("enough")); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(group.failure().message(), "enough");
  });
  EXPECT_EQ(ranks.nccl().open(), 0);
}

// The queued work waits on two edges of one GPU: neither can be aborted before the other is.
TEST(Nccl, AbortsOfEdgesDoNotWaitForEachOther) {
  NcclRanks ranks({.ranks = 3});
  ranks.RunOnDevices([](const NcclRanks::Rank& rank) {
    Communicator& group = rank.communicator;
    Ints memory(rank.device, 2);
    if (group.rank() == 0) {
      for (int from : {1, 2}) {
        Ticket ticket = 0;
        ASSERT_TRUE(
            group.PostReceive(from, memory.at(static_cast<size_t>(from) - 1), 4, &ticket).ok());
        ASSERT_TRUE(group.WaitReceive(from, ticket, Soon()).ok());
      }
    }
    ASSERT_TRUE(group.Barrier(Soon()).ok());
    if (group.rank() == 1) group.Abort(absl::CancelledError("enough"));
    EXPECT_TRUE(rank.device.Synchronize(rank.compute, Soon()).ok());
    while (group.failure().ok()) std::this_thread::yield();
  });
  EXPECT_EQ(ranks.nccl().open(), 0);
}

// Rank 0 has much work after its last message; that the other rank has given up on closing together
// is no failure of the run.
TEST(Nccl, ARankThatClosesLateDoesNotFailTheOthers) {
  NcclRanks ranks({.timeout = absl::Seconds(3)});
  const auto statuses = ranks.RunOnDevices([](const NcclRanks::Rank& rank) {
    if (rank.communicator.rank() == 0) absl::SleepFor(absl::Milliseconds(4500));
    EXPECT_TRUE(rank.communicator.failure().ok()) << rank.communicator.failure();
  });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(ranks.host().communicator(0).failure().ok());
  EXPECT_EQ(ranks.nccl().open(), 0);
}

// A rank that leaves without telling the others, which wait for it.
TEST(Nccl, ARankThatLeavesWithMessagesOutstandingEndsTheOthers) {
  NcclRanks ranks({});
  ranks.RunOnDevices([](const NcclRanks::Rank& rank) {
    Communicator& group = rank.communicator;
    static int value = 0;
    Ticket ticket = 0;
    ASSERT_TRUE(group.PostReceive(1 - group.rank(), &value, sizeof(int), &ticket).ok());
    ASSERT_TRUE(group.Barrier(Soon()).ok());
    if (group.rank() == 1) return;
    // The rank may have left already.
    const absl::Status waited = group.WaitReceive(1, ticket, Soon());
    EXPECT_TRUE(waited.ok() || waited == group.failure()) << waited;
    EXPECT_TRUE(rank.device.Synchronize(rank.compute, Soon()).ok());
    EXPECT_THAT(std::string(group.failure().message()), HasSubstr("rank 1 has left"));
  });
  EXPECT_EQ(ranks.nccl().open(), 0);
}

TEST(Nccl, AMeetingPlaceForAllIsRefused) {
  setenv("NCCL_COMM_ID", "127.0.0.1:4000", 1);
  NcclRanks ranks({});
  for (const absl::Status& status : ranks.RunOnDevices([](const NcclRanks::Rank&) { FAIL(); })) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("NCCL_COMM_ID"));
  }
  unsetenv("NCCL_COMM_ID");
}

TEST(Nccl, KernelsAreLoadedBeforeTheyAreNeededWhateverTheEnvironmentSays) {
  setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  PrepareEnvironmentForNccl();
  EXPECT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "EAGER");
}

TEST(Nccl, HostsAreToldApartAsNcclDoes) {
  const std::string machine = ThisHost();
  EXPECT_EQ(machine, ThisHost());
  setenv("NCCL_HOSTID", "mine", 1);
  EXPECT_EQ(ThisHost(), "mine");
  unsetenv("NCCL_HOSTID");
}

}  // namespace
}  // namespace sluice
