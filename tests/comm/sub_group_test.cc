// A sub-group behaves like a group, beside the whole group and other sub-groups.
#include "comm/collectives/sub_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "comm/local/in_process.h"

namespace sluice {
namespace {

using testing::HasSubstr;

Instant Soon() { return Instant::Now() + absl::Seconds(60); }

void RunGroup(int ranks, const std::function<void(Communicator&)>& body) {
  InProcessGroup group(ranks, /*capacity=*/8, absl::ZeroDuration());
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) threads.emplace_back([&, r] { body(group.communicator(r)); });
  for (std::thread& thread : threads) thread.join();
}

TEST(SubGroup, NumbersItsMembersInTheGivenOrder) {
  RunGroup(5, [](Communicator& whole) {
    const std::vector<int> members = {4, 0, 3};
    const auto self = std::find(members.begin(), members.end(), whole.rank());
    if (self == members.end()) return;
    SubGroup group(&whole, members);
    EXPECT_EQ(group.rank(), self - members.begin());
    EXPECT_EQ(group.size(), 3);
  });
}

TEST(SubGroup, PassesMessagesBetweenMembers) {
  RunGroup(4, [](Communicator& whole) {
    if (whole.rank() == 1) return;
    SubGroup group(&whole, {3, 0, 2});
    const int next = (group.rank() + 1) % 3;
    const int before = (group.rank() + 2) % 3;
    for (int round = 0; round < 200; ++round) {
      const int out = group.rank() * 1000 + round;
      int in = -1;
      Ticket sent = 0;
      Ticket received = 0;
      ASSERT_TRUE(group.PostReceive(before, &in, sizeof(in), &received).ok());
      ASSERT_TRUE(group.PostSend(next, &out, sizeof(out), &sent).ok());
      ASSERT_TRUE(group.WaitReceive(before, received, Soon()).ok());
      ASSERT_TRUE(group.WaitSend(next, sent, Soon()).ok());
      ASSERT_EQ(in, before * 1000 + round);
    }
  });
}

TEST(SubGroup, GathersInTheOrderOfMembers) {
  RunGroup(5, [](Communicator& whole) {
    // Two sub-groups at the same time, and the whole group between them.
    const bool odd = whole.rank() % 2 == 1;
    const std::vector<int> members = odd ? std::vector<int>{3, 1} : std::vector<int>{0, 4, 2};
    SubGroup group(&whole, members);
    for (int round = 0; round < 100; ++round) {
      const std::vector<double> mine = {static_cast<double>(whole.rank()),
                                        static_cast<double>(round)};
      std::vector<double> all(2 * members.size());
      ASSERT_TRUE(group.AllGather(mine, absl::MakeSpan(all), Soon()).ok());
      for (size_t m = 0; m < members.size(); ++m) {
        ASSERT_EQ(all[2 * m], members[m]);
        ASSERT_EQ(all[2 * m + 1], round);
      }
      std::vector<double> everybody(10);
      ASSERT_TRUE(whole.AllGather(mine, absl::MakeSpan(everybody), Soon()).ok());
      ASSERT_EQ(everybody[8], 4);
    }
  });
}

TEST(SubGroup, GatheringNeedsRoomForEverybody) {
  RunGroup(2, [](Communicator& whole) {
    SubGroup group(&whole, {0, 1});
    const double mine = 1;
    std::vector<double> all(3);
    EXPECT_EQ(group.AllGather(absl::MakeConstSpan(&mine, 1), absl::MakeSpan(all), Soon()).code(),
              absl::StatusCode::kInternal);
  });
}

TEST(SubGroup, ABarrierHoldsUntilAllMembersHaveCome) {
  std::atomic<int> arrived{0};
  RunGroup(4, [&arrived](Communicator& whole) {
    if (whole.rank() == 2) return;
    SubGroup group(&whole, {0, 1, 3});
    for (int round = 1; round <= 100; ++round) {
      ++arrived;
      ASSERT_TRUE(group.Barrier(Soon()).ok());
      ASSERT_GE(arrived.load(), 3 * round);
      ASSERT_TRUE(group.Barrier(Soon()).ok());
    }
  });
  RunGroup(3, [](Communicator& whole) {
    if (whole.rank() == 1) return;
    if (whole.rank() == 2) return;
    SubGroup group(&whole, {2, 0});
    const absl::Status late = group.Barrier(Instant::Now() + absl::Milliseconds(30));
    EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(late.message()), HasSubstr("from rank 2 to rank 0"));
  });
}

TEST(SubGroup, AbortStopsTheWhole) {
  RunGroup(4, [](Communicator& whole) {
    absl::Status status;
    if (whole.rank() == 3) {
      SubGroup group(&whole, {2, 3});
      group.Abort(absl::UnavailableError("rank 3 has left"));
      return;
    }
    status = whole.Barrier(Soon());
    EXPECT_EQ(status, absl::UnavailableError("rank 3 has left"));
  });
}

}  // namespace
}  // namespace sluice
