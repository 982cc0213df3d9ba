#include "models/device/running_clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace sluice {
namespace {

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kSecond = 1000 * kMillisecond;
constexpr int64_t kTick = RunningClock::kTick;

// A clock over a steady clock that goes on when the test says so.
class RunningClockTest : public testing::Test {
 protected:
  // The process runs, and looks as often as it should.
  void Run(int64_t nanoseconds) {
    for (; nanoseconds > kTick; nanoseconds -= kTick) Late(kTick);
    Late(nanoseconds);
  }
  // Nobody looks for that long.
  void Late(int64_t nanoseconds) {
    now_ += nanoseconds;
    clock_.Look();
  }

  std::atomic<int64_t> now_{12345 * kSecond};
  // The next reader is stopped for that long just before, or just after, it reads the steady clock,
  // and goes on when another thread has already looked.
  std::atomic<int64_t> stop_before_{0}, stop_after_{0};
  RunningClock clock_{[this] {
    if (const int64_t stop = stop_before_.exchange(0); stop > 0) Late(stop);
    const int64_t now = now_;
    if (const int64_t stop = stop_after_.exchange(0); stop > 0) Late(stop);
    return now;
  }};
};

TEST_F(RunningClockTest, BeginsAtZeroAndCountsEveryNanosecond) {
  EXPECT_EQ(clock_.Read(), 0);
  now_ += 1;
  EXPECT_EQ(clock_.Read(), 1);
  Run(3600 * kSecond);
  EXPECT_EQ(clock_.Read(), 3600 * kSecond + 1);
}

TEST_F(RunningClockTest, LooksThatComeLateChangeNothing) {
  for (int i = 0; i < 1000; ++i) Late(100 * kMillisecond);
  for (int i = 0; i < 1000; ++i) Late(RunningClock::kShortestStop);
  EXPECT_EQ(clock_.Read(), 100 * kSecond + 1000 * RunningClock::kShortestStop);
}

TEST_F(RunningClockTest, ReadersThatComeOftenAreLooksToo) {
  for (int64_t i = 0; i < 1000; ++i) {
    now_ += 100 * kMillisecond;
    EXPECT_EQ(clock_.Read(), (i + 1) * 100 * kMillisecond);
  }
}

TEST_F(RunningClockTest, AStopIsNotCounted) {
  Run(10 * kSecond);
  const int64_t before = clock_.Read();
  now_ += 3600 * kSecond;  // and the first to look is a reader
  const int64_t after = clock_.Read();
  EXPECT_GE(after, before);
  EXPECT_LE(after, before + RunningClock::kUnseen);
  Run(10 * kSecond);
  EXPECT_EQ(clock_.Read(), after + 10 * kSecond - RunningClock::kGrace);
}

TEST_F(RunningClockTest, AStopInTheMiddleOfATickDoesNotTurnTheClockBack) {
  Run(kSecond);
  now_ += RunningClock::kUnseen;  // the tick is late, and somebody reads
  const int64_t before = clock_.Read();
  now_ += 10 * kSecond;
  EXPECT_EQ(clock_.Read(), before);
}

TEST_F(RunningClockTest, StandsStillForAMomentAfterAStop) {
  Late(5 * kSecond);
  const int64_t after = clock_.Read();
  Run(RunningClock::kGrace - 1);
  EXPECT_EQ(clock_.Read(), after);
  Run(1);
  EXPECT_EQ(clock_.Read(), after);
  Run(1);
  EXPECT_EQ(clock_.Read(), after + 1);
}

TEST_F(RunningClockTest, AStopThatManySeeIsCountedOnce) {
  Run(kSecond);
  const int64_t before = clock_.Read();
  now_ += 10 * kSecond;
  std::vector<std::thread> readers;
  std::vector<int64_t> read(8);
  for (int64_t& reading : read) {
    readers.emplace_back([this, &reading] { reading = clock_.Read(); });
  }
  for (std::thread& reader : readers) reader.join();
  for (const int64_t reading : read) EXPECT_EQ(reading, before + RunningClock::kUnseen);
  Run(kSecond);
  EXPECT_EQ(clock_.Read(), before + RunningClock::kUnseen + kSecond - RunningClock::kGrace);
}

// What is read before a stop must not be taken for a time after it, nor the other way round.
TEST_F(RunningClockTest, AReaderMayBeStoppedInMidReading) {
  for (std::atomic<int64_t>* stop : {&stop_before_, &stop_after_}) {
    Run(kSecond);
    const int64_t before = clock_.Read();
    *stop = 100 * kSecond;
    const int64_t reading = clock_.Read();
    EXPECT_GE(reading, before);
    EXPECT_LE(reading, before + RunningClock::kUnseen);
    EXPECT_EQ(*stop, 0);
  }
}

TEST_F(RunningClockTest, AStopInMidLookIsCountedOnce) {
  for (std::atomic<int64_t>* stop : {&stop_before_, &stop_after_}) {
    Run(kSecond);
    const int64_t before = clock_.Read();
    *stop = 100 * kSecond;
    clock_.Look();
    EXPECT_EQ(clock_.Read(), before + RunningClock::kUnseen);
    Run(kSecond);
    EXPECT_EQ(clock_.Read(), before + RunningClock::kUnseen + kSecond - RunningClock::kGrace);
  }
}

// However little it runs, whoever waits will not wait for ever.
TEST_F(RunningClockTest, GoesOnUnderStopsWithoutEnd) {
  for (int i = 0; i < 1000; ++i) {
    const int64_t before = clock_.Read();
    Late(RunningClock::kShortestStop + 1);
    EXPECT_GE(clock_.Read(), before + RunningClock::kUnseen);
  }
}

// Under the thread sanitizer too.
TEST_F(RunningClockTest, NeverGoesBackForAnyThread) {
  std::atomic<bool> done{false};
  std::atomic<int> backwards{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      for (int64_t last = 0; !done;) {
        const int64_t reading = clock_.Read();
        if (reading < last) ++backwards;
        last = reading;
      }
    });
  }
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    now_ += static_cast<int64_t>(random() % (random() % 50 == 0 ? kSecond : kTick));
    if (random() % 2 == 0) clock_.Look();
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(backwards, 0);
}

}  // namespace
}  // namespace sluice
