// What every transport must do with messages that do not come, do not fit, or are given up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/comm/conformance.h"

namespace sluice {
namespace {

using testing::HasSubstr;

TEST_P(Conformance, DifferentSizesAreAnErrorOnBothSides) {
  if (!GetParam().checks_sizes) GTEST_SKIP() << GetParam().name << " does not see both sizes";
  Make(2)->Run([](Communicator& ranks) {
    std::vector<uint8_t> data(100);
    Ticket ticket = 0;
    absl::Status status;
    if (ranks.rank() == 0) {
      status = ranks.PostSend(1, data.data(), 100, &ticket);
      if (status.ok()) status = ranks.WaitSend(1, ticket, Soon());
    } else {
      status = ranks.PostReceive(0, data.data(), 60, &ticket);
      if (status.ok()) status = ranks.WaitReceive(0, ticket, Soon());
      ranks.Abort(status);
    }
    // The sender may have released its message before the receiver detects the error.
    if (status.ok()) status = ranks.Barrier(Soon());
    EXPECT_THAT(std::string(status.message()), HasSubstr("100 bytes"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected 60"));
  });
}

TEST_P(Conformance, MoreThanTheCapacityIsAnErrorNotAHang) {
  int values[5] = {};  // outlives the group, which still waits for messages when the body ends
  Make(2, 4)->Run([&values](Communicator& ranks) {
    if (ranks.rank() != 0) return;
    Ticket ticket = 0;
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(ranks.PostReceive(1, &values[i], sizeof(int), &ticket).ok());
    }
    EXPECT_EQ(ranks.PostReceive(1, &values[4], sizeof(int), &ticket).code(),
              absl::StatusCode::kResourceExhausted);
  });
}

TEST_P(Conformance, AMessageThatDoesNotComeIsADeadline) {
  int value = 0;  // outlives the group
  Make(2)->Run([&value](Communicator& ranks) {
    if (ranks.rank() != 0) return;
    Ticket ticket = 0;
    ASSERT_TRUE(ranks.PostReceive(1, &value, sizeof(value), &ticket).ok());
    const absl::Status late = ranks.WaitReceive(1, ticket, Instant::Now() + absl::Milliseconds(30));
    EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(late.message()), HasSubstr("from rank 1 to rank 0"));
  });
}

TEST_P(Conformance, ALongMessageThatNobodyTakesIsADeadline) {
  std::vector<char> data(8 << 20);
  Make(2)->Run([&data](Communicator& ranks) {
    if (ranks.rank() == 0) {
      Ticket ticket = 0;
      ASSERT_TRUE(ranks.PostSend(1, data.data(), data.size(), &ticket).ok());
      const absl::Status late = ranks.WaitSend(1, ticket, Instant::Now() + absl::Milliseconds(30));
      EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
      EXPECT_THAT(std::string(late.message()), HasSubstr("from rank 0 to rank 1"));
      ranks.Abort(late);
    }
    EXPECT_EQ(ranks.Barrier(Soon()).code(), absl::StatusCode::kDeadlineExceeded);
  });
}

TEST_P(Conformance, AbortWakesEveryWaiter) {
  Make(4)->Run([](Communicator& ranks) {
    int value = 0;
    Ticket ticket = 0;
    if (ranks.rank() == 3) {
      for (int other = 0; other < 3; ++other) {
        ASSERT_TRUE(ranks.PostReceive(other, &value, sizeof(value), &ticket).ok());
        ASSERT_TRUE(ranks.WaitReceive(other, ticket, Soon()).ok());
      }
      // The others wait by now; if they do not, the test is easier, and still right.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ranks.Abort(absl::UnavailableError("rank 3 has left"));
      ranks.Abort(absl::UnavailableError("too late"));
      return;
    }
    if (ranks.rank() != 2) {
      ASSERT_TRUE(ranks.PostReceive(3, &value, sizeof(value), &ticket).ok());
    }
    int ready = 0;
    Ticket told = 0;
    ASSERT_TRUE(ranks.PostSend(3, &ready, sizeof(ready), &told).ok());
    // Rank 3 may have had it, and left, before the wait begins.
    const absl::Status sent = ranks.WaitSend(3, told, Soon());
    EXPECT_TRUE(sent.ok() || sent.message() == "rank 3 has left") << sent;
    const absl::Status status =
        ranks.rank() == 2 ? ranks.Barrier(Soon()) : ranks.WaitReceive(3, ticket, Soon());
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), "rank 3 has left");
    EXPECT_EQ(ranks.Barrier(Soon()).message(), "rank 3 has left");
    EXPECT_EQ(ranks.PostSend(3, &value, sizeof(value), &ticket).message(), "rank 3 has left");
  });
}

TEST_P(Conformance, AbortInTheMiddleOfLongMessages) {
  for (int trial = 0; trial < 5; ++trial) {
    std::vector<char> out(4 << 20);
    std::vector<char> in(4 << 20);
    Make(3)->Run([&, trial](Communicator& ranks) {
      const int next = (ranks.rank() + 1) % 3;
      const int before = (ranks.rank() + 2) % 3;
      // Each rank has its own buffers, also where ranks are threads; they are freed as soon as
      // Abort has returned.
      std::vector<char> mine = out;
      std::vector<char> theirs = in;
      // All ranks join before one aborts: a late rank would find no group to join.
      absl::Status status = ranks.Barrier(Soon());
      while (status.ok()) {
        Ticket sent = 0;
        Ticket received = 0;
        status = ranks.PostReceive(before, theirs.data(), theirs.size(), &received);
        if (status.ok()) status = ranks.PostSend(next, mine.data(), mine.size(), &sent);
        if (ranks.rank() == trial % 3) {
          std::this_thread::sleep_for(std::chrono::milliseconds(trial));
          ranks.Abort(absl::CancelledError("enough"));
        }
        if (status.ok()) status = ranks.WaitReceive(before, received, Soon());
        if (status.ok()) status = ranks.WaitSend(next, sent, Soon());
      }
      EXPECT_EQ(status.message(), "enough");
      ranks.Abort(status);
    });
  }
}

}  // namespace
}  // namespace sluice
