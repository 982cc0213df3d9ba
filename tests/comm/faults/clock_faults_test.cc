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
#include "tests/built_files.h"
#include "tests/comm/faults/rank_group.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

using testing::HasSubstr;

// Milliseconds, as comm_rank takes them. No machine is so slow that a message takes a minute.
constexpr char kMinute[] = "60000";
// Nor does a healthy rank say nothing for so long; the tests take about that long.
constexpr char kMoment[] = "3000";

// All ranks finish after the current round.
void ExpectToFinish(const RankGroup& group) {
  kill(group[0]->pid(), SIGUSR1);
  for (const auto& child : group) {
    EXPECT_EQ(child->AwaitExit(), 0) << child->output();
    EXPECT_THAT(child->output(), HasSubstr("done"));
  }
}

void ExpectToMissRankOne(const RankGroup& group) {
  for (const int rank : {0, 2}) {
    ExpectLost(*group[static_cast<size_t>(rank)], "nothing has been heard of rank 1 for");
  }
}

// Ranks whose clocks are set while they run.
class SteppedClock : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer's library must be the first that is loaded";
  }
  void TearDown() override {
    std::filesystem::remove(wall_);
    std::filesystem::remove(steady_);
  }
  RankGroup Start(const std::string& timeout) const {
    return StartGroup(
        3, {"0", timeout, "1000"},
        {absl::StrCat("LD_PRELOAD=", SteppedClockLibrary()),
         absl::StrCat("SLUICE_CLOCK_STEP=", wall_), absl::StrCat("SLUICE_STEADY_STEP=", steady_)});
  }
  // Both: from the clock as it was at the beginning.
  void StepWallClock(absl::Duration by) const { Step(wall_, by); }
  void StepSteadyClock(absl::Duration by) const { Step(steady_, by); }

  // Stops all ranks, as Ctrl-Z and `docker pause` do, and lets them go on when their clock has gone
  // on by `pause`, which begins at `from` by the steps of the test.
  void PauseAll(const RankGroup& group, absl::Duration from, absl::Duration pause) const {
    for (const auto& child : group) child->Stop();
    StepSteadyClock(from + pause);
    for (const auto& child : group) kill(child->pid(), SIGCONT);
  }

 private:
  static void Step(const std::string& file, absl::Duration by) {
    std::ofstream(file + ".new") << absl::ToInt64Seconds(by);
    std::filesystem::rename(file + ".new", file);  // at once, and all of it
  }

  const std::string wall_ =
      absl::StrCat(testing::TempDir(), "sluice_clock_step_", getpid(), "_",
                   testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::string steady_ = wall_ + "_steady";
};

TEST_F(SteppedClock, APauseOfAllRanksIsNoFault) {
  const RankGroup group = Start(kMinute);
  AwaitReady(group);
  for (int trial = 0; trial < 3; ++trial) {
    PauseAll(group, trial * absl::Hours(1), absl::Hours(1));
    AwaitRound(group);
  }
  ExpectToFinish(group);
}

TEST_F(SteppedClock, ARankThatStopsAfterAPauseOfAllIsMissedByTheTimeout) {
  const RankGroup group = Start(kMoment);
  AwaitReady(group);
  PauseAll(group, absl::ZeroDuration(), absl::Hours(1));
  AwaitRound(group);
  group[1]->Stop();
  ExpectToMissRankOne(group);
}

TEST_F(SteppedClock, ForwardIsNoFault) {
  const RankGroup group = Start(kMinute);
  AwaitReady(group);
  StepWallClock(absl::Hours(1));
  AwaitRound(group);
  ExpectToFinish(group);
}

TEST_F(SteppedClock, BackwardDoesNotHideARankThatStops) {
  const RankGroup group = Start(kMoment);
  AwaitReady(group);
  group[1]->Stop();
  // The others wait for it by now; if they do not, the test is easier, and still right.
  absl::SleepFor(absl::Milliseconds(200));
  StepWallClock(-absl::Hours(1));
  ExpectToMissRankOne(group);
}

}  // namespace
}  // namespace sluice
