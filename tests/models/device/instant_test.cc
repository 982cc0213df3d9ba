#include "models/device/instant.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "models/device/wait_until.h"

namespace sluice {
namespace {

TEST(Instant, IsCountedInDurations) {
  const Instant begin;
  const Instant later = begin + absl::Seconds(3);
  EXPECT_EQ(later - begin, absl::Seconds(3));
  EXPECT_EQ(later - absl::Seconds(3), begin);
  EXPECT_LT(begin, later);
  EXPECT_GE(later, begin);
  EXPECT_NE(later, begin);
}

TEST(Instant, StaysInfiniteWhateverIsAdded) {
  const Instant future = Instant::InfiniteFuture();
  EXPECT_EQ(future - absl::Hours(1), future);
  EXPECT_EQ(Instant() + absl::InfiniteDuration(), future);
  EXPECT_LT(Instant::Now() + absl::Hours(1), future);
  EXPECT_GT(Instant::Now() - absl::Hours(1), Instant::InfinitePast());
  EXPECT_EQ(future - Instant::Now(), absl::InfiniteDuration());
}

TEST(Instant, NowNeverGoesBack) {
  Instant last = Instant::Now();
  EXPECT_GE(last, Instant());
  for (int i = 0; i < 100000; ++i) {
    const Instant now = Instant::Now();
    ASSERT_GE(now, last);
    last = now;
  }
}

class WaitUntilTest : public testing::Test {
 protected:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

TEST_F(WaitUntilTest, WhatIsDoneIsNeverLate) {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(WaitUntil(changed_, lock, Instant::InfinitePast(), [] { return true; }));
}

TEST_F(WaitUntilTest, EndsAtTheDeadline) {
  std::unique_lock lock(mutex_);
  for (const Instant deadline :
       {Instant::InfinitePast(), Instant::Now(), Instant::Now() + absl::Milliseconds(20)}) {
    EXPECT_FALSE(WaitUntil(changed_, lock, deadline, [] { return false; }));
    EXPECT_GE(Instant::Now(), deadline);
    EXPECT_TRUE(lock.owns_lock());
  }
}

TEST_F(WaitUntilTest, EndsOnceItIsDone) {
  for (const Instant deadline : {Instant::InfiniteFuture(), Instant::Now() + absl::Hours(1e6)}) {
    done_ = false;
    std::thread other([this] {
      const std::lock_guard lock(mutex_);
      done_ = true;
      changed_.notify_all();
    });
    {
      std::unique_lock lock(mutex_);
      EXPECT_TRUE(WaitUntil(changed_, lock, deadline, [this] { return done_; }));
    }
    other.join();
  }
}

TEST(SleepUntil, ReturnsWhenTheTimeHasCome) {
  SleepUntil(Instant::InfinitePast());
  const Instant soon = Instant::Now() + absl::Milliseconds(20);
  SleepUntil(soon);
  EXPECT_GE(Instant::Now(), soon);
}

}  // namespace
}  // namespace sluice
