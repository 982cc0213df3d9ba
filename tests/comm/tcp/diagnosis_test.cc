// Which rank an error names when a message is late, from what each rank knows of the others.
#include "comm/tcp/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

constexpr absl::Duration kHeartbeat = absl::Milliseconds(100);

RankHealth Heard(int milliseconds_ago, int awaits = kNoRank, int awaited_milliseconds = 0) {
  return {.silence = absl::Milliseconds(milliseconds_ago),
          .awaits = awaits,
          .awaited_silence = absl::Milliseconds(awaited_milliseconds)};
}

// The message of rank 0 about a late message of rank `late`.
PeerHealth HealthOf(int late, const std::vector<RankHealth>& others) {
  std::vector<RankHealth> ranks = {RankHealth()};
  ranks.insert(ranks.end(), others.begin(), others.end());
  return DescribeLate(0, late, ranks, kHeartbeat);
}

std::string Describe(int late, const std::vector<RankHealth>& others) {
  return HealthOf(late, others).words;
}

// However short the timeout is, the rank that was cut off when the others began to wait is named,
// and not the healthy one that waits for it.
TEST(HeartbeatFor, LetsASilentRankBeKnownByTheTimeout) {
  for (const int milliseconds : {20, 300, 1000, 1999, 30'000}) {
    const absl::Duration timeout = absl::Milliseconds(milliseconds);
    const absl::Duration heartbeat = HeartbeatFor(timeout);
    EXPECT_LE(heartbeat, absl::Seconds(1));
    for (const bool heard_here : {false, true}) {
      RankHealth cut;
      cut.silence = heard_here ? heartbeat : timeout - heartbeat;
      const RankHealth healthy = {
          .silence = heartbeat, .awaits = 1, .awaited_silence = timeout - 2 * heartbeat};
      const PeerHealth health = DescribeLate(0, 2, {RankHealth(), cut, healthy}, heartbeat);
      EXPECT_EQ(health.suspect, 1) << timeout << health.words;
      EXPECT_THAT(health.words, testing::HasSubstr("it is stopped or cut off")) << timeout;
    }
  }
}

TEST(HeartbeatFor, IsNeverNothingAndUsuallyASecond) {
  EXPECT_GT(HeartbeatFor(absl::ZeroDuration()), absl::ZeroDuration());
  for (const absl::Duration usual : {absl::Seconds(5), absl::Seconds(30), absl::InfiniteDuration()})
    EXPECT_EQ(HeartbeatFor(usual), absl::Seconds(1));
}

TEST(DescribeLate, ARankThatIsBusy) {
  EXPECT_EQ(Describe(1, {Heard(73)}), " (rank 1 was heard of 73 ms ago)");
}

TEST(DescribeLate, ARankThatIsSilent) {
  EXPECT_EQ(Describe(1, {Heard(2000), Heard(5)}),
            " (nothing has been heard of rank 1 for 2000 ms: it is stopped or cut off)");
}

TEST(DescribeLate, ARankThatWaitsForASilentOne) {
  EXPECT_EQ(Describe(2, {Heard(2000), Heard(73, 1, 1950)}),
            " (rank 2 was heard of 73 ms ago and waits for rank 1; nothing has been heard of rank "
            "1 for 2000 ms: it is stopped or cut off)");
}

// The connection was cut so recently that its rank has missed only two heartbeats.
TEST(DescribeLate, ARankThatWaitsForOneThatIsSilentSinceAMoment) {
  EXPECT_EQ(Describe(2, {Heard(210), Heard(73, 1, 140)}),
            " (rank 2 was heard of 73 ms ago and waits for rank 1; nothing has been heard of rank "
            "1 for 210 ms: it may be stopped or cut off)");
}

// Also before anything is late, the busy rank is named beside the healthy one that waits for it.
TEST(DescribeLate, ARankThatWaitsForABusyOne) {
  EXPECT_EQ(Describe(2, {Heard(90), Heard(73, 1, 20)}),
            " (rank 2 was heard of 73 ms ago and waits for rank 1; rank 1 was heard of 90 ms ago)");
}

// The cable between ranks 1 and 2 is cut; both still talk to rank 0.
TEST(DescribeLate, ARankThatOnlyTheOneThatWaitsCannotHear) {
  EXPECT_EQ(Describe(2, {Heard(10), Heard(73, 1, 900)}),
            " (rank 2 was heard of 73 ms ago and waits for rank 1; rank 2 has heard nothing of "
            "rank 1 for 900 ms: it is stopped or cut off)");
}

TEST(DescribeLate, ALongChain) {
  EXPECT_EQ(Describe(1, {Heard(1, 2), Heard(2, 3), Heard(3, 4), Heard(4000)}),
            " (rank 1 was heard of 1 ms ago and waits for rank 2; rank 2 was heard of 2 ms ago and "
            "waits for rank 3; rank 3 was heard of 3 ms ago and waits for rank 4; nothing has been "
            "heard of rank 4 for 4000 ms: it is stopped or cut off)");
}

TEST(DescribeLate, ACircle) {
  EXPECT_EQ(Describe(2, {Heard(90, 0), Heard(73, 1)}),
            " (rank 2 was heard of 73 ms ago and waits for rank 1; rank 1 was heard of 90 ms ago "
            "and waits for rank 0)");
  EXPECT_EQ(Describe(2, {Heard(90, 2), Heard(73, 1)}),
            " (rank 2 was heard of 73 ms ago and waits for rank 1; rank 1 was heard of 90 ms ago "
            "and waits for rank 2)");
}

TEST(DescribeLate, ASilentRankOutsideOfTheChain) {
  EXPECT_EQ(Describe(1, {Heard(20), Heard(700), Heard(900)}),
            " (rank 1 was heard of 20 ms ago; nothing has been heard of rank 3 for 900 ms: it is "
            "stopped or cut off)");
}

TEST(DescribeLate, TheSuspectIsTheRankThatIsSilentElseTheOneThatIsLate) {
  EXPECT_EQ(HealthOf(2, {Heard(2000), Heard(73, 1, 1950)}).suspect, 1);
  EXPECT_EQ(HealthOf(2, {Heard(10), Heard(73, 1, 900)}).suspect, 1);
  EXPECT_EQ(HealthOf(1, {Heard(20), Heard(900)}).suspect, 2);
  EXPECT_EQ(HealthOf(2, {Heard(90), Heard(73, 1, 20)}).suspect, 2);
}

TEST(DescribeLate, ARankToItself) { EXPECT_EQ(Describe(0, {Heard(20)}), ""); }

}  // namespace
}  // namespace sluice
