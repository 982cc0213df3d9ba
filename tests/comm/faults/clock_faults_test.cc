// A pause of all ranks, and a change of the wall clock, must not disturb ranks that are processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "models/device/instant.h"
#include "tests/built_files.h"
#include "tests/comm/faults/rank_group.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kSlack = absl::Seconds(12);  // added to the time-outs below

// All ranks finish after the current round.
void ExpectToFinish(const RankGroup& group) {
  kill(group[0]->pid(), SIGUSR1);
  for (const auto& child : group) {
    EXPECT_EQ(child->AwaitExit(), 0) << child->output();
    EXPECT_THAT(child->output(), HasSubstr("done"));
  }
}

void ExpectToMissRankOne(const RankGroup& group) {
  const Instant start = Instant::Now();
  for (const int rank : {0, 2}) {
    ExpectLost(*group[static_cast<size_t>(rank)], "nothing has been heard of rank 1 for");
  }
  EXPECT_LT(Instant::Now() - start, kSlack);
}

// Stops all ranks for `pause`, longer than the time-out, as Ctrl-Z and `docker pause` do.
void PauseAll(const RankGroup& group, absl::Duration pause) {
  for (const auto& child : group) kill(child->pid(), SIGSTOP);
  absl::SleepFor(pause);
  for (const auto& child : group) kill(child->pid(), SIGCONT);
}

TEST(Clock, APauseOfAllRanksIsNoFault) {
  const RankGroup group = StartGroup(3, {"0", "1000", "1000"});
  AwaitReady(group);
  for (int trial = 0; trial < 3; ++trial) PauseAll(group, absl::Milliseconds(1500));
  ExpectToFinish(group);
}

TEST(Clock, ARankThatStopsAfterAPauseOfAllIsMissedByTheTimeout) {
  const RankGroup group = StartGroup(3, {"0", "1000", "1000"});
  AwaitReady(group);
  PauseAll(group, absl::Milliseconds(1500));
  kill(group[1]->pid(), SIGSTOP);
  ExpectToMissRankOne(group);
}

// Ranks whose wall clock is set while they run.
class SteppedClock : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer's library must be the first that is loaded";
  }
  void TearDown() override { std::filesystem::remove(file_); }
  RankGroup Start(const std::vector<std::string>& arguments) const {
    return StartGroup(3, arguments,
                      {absl::StrCat("LD_PRELOAD=", SteppedClockLibrary()),
                       absl::StrCat("SLUICE_CLOCK_STEP=", file_)});
  }
  void Step(absl::Duration by) const {
    std::ofstream(file_ + ".new") << absl::ToInt64Seconds(by);
    std::filesystem::rename(file_ + ".new", file_);  // atomically
  }

 private:
  const std::string file_ =
      absl::StrCat(testing::TempDir(), "sluice_clock_step_", getpid(), "_",
                   testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(SteppedClock, ForwardIsNoFault) {
  const RankGroup group = Start({"0", "5000", "1000"});
  AwaitReady(group);
  Step(absl::Hours(1));
  absl::SleepFor(absl::Milliseconds(200));  // some rounds under the new time
  ExpectToFinish(group);
}

TEST_F(SteppedClock, BackwardDoesNotHideARankThatStops) {
  const RankGroup group = Start({"0", "1500", "1000"});
  AwaitReady(group);
  kill(group[1]->pid(), SIGSTOP);
  absl::SleepFor(absl::Milliseconds(200));  // by now the other ranks wait for it
  Step(-absl::Hours(1));
  ExpectToMissRankOne(group);
}

}  // namespace
}  // namespace sluice
