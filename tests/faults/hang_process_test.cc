// The program `sluice` ends where a rank hangs, with threads of one process and with processes over
// TCP, and what is printed names that rank, its place and the function in which it hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/built_files.h"
#include "tests/comm/faults/child.h"
#include "tests/comm/faults/free_port.h"
#include "tests/comm/faults/rank_group.h"
#include "tests/models/data/files.h"
#include "tests/sanitizers.h"
#include "tests/tools/tiny_run.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr absl::Duration kTimeout = absl::Seconds(3);

// A run of two ranks that goes on until one of its libraries' functions is made to hang.
class HangingRun : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer's library must be the first that is loaded";
    WriteText(folder_ / "text");
    std::filesystem::create_directory(folder_ / "calls");
  }

  std::vector<std::string> Command(const std::string& more) const {
    std::vector<std::string> command = {SluiceProgram(), "train"};
    const std::string flags =
        absl::StrCat("--data ", folder_ / "text", " --steps 100000000 --json --timeout ",
                     absl::FormatDuration(kTimeout), " ", more);
    const std::vector<std::string> words =
        absl::StrSplit(WithTinyRun(flags), ' ', absl::SkipEmpty());
    command.insert(command.end(), words.begin(), words.end());
    return command;
  }

  std::vector<std::string> Preload() const {
    return {absl::StrCat("LD_PRELOAD=", HangingCallsLibrary()),
            absl::StrCat("SLUICE_HANGING_CALLS=", folder_ / "calls")};
  }

  // Only for runs that are to hang on the disk: a busy machine's disk may hang by itself.
  std::string Saving() const {
    return absl::StrCat("--save ", folder_ / "run", " --save-every 20");
  }

  // Rank 1 is the one whose functions may hang.
  void StartOverTcp(const std::string& more = "") {
    const int port = FreePort();
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<std::string> variables = TorchrunEnvironment(rank, 2, "127.0.0.1", port);
      if (rank == 1) {
        for (const std::string& variable : Preload()) variables.push_back(variable);
      }
      ranks_.push_back(
          std::make_unique<Child>(Command(absl::StrCat("--transport tcp ", more)), variables));
    }
    AwaitSteps();
  }

  void StartHere(const std::string& more = "") {
    ranks_.push_back(std::make_unique<Child>(Command(more), Preload()));
    AwaitSteps();
  }

  void AwaitSteps() { ASSERT_TRUE(ranks_[0]->AwaitOutput("\"step\":3,")) << ranks_[0]->output(); }

  // From now on every call of the function hangs.
  void Hang(const std::string& function) { WriteBytes(folder_ / "calls/" + function, ""); }

  TempFolder folder_;
  RankGroup ranks_;
};

TEST_F(HangingRun, InAKernelOfOneProcess) {
  StartHere();
  Hang("dnnl_primitive_execute");
  EXPECT_EQ(ranks_[0]->AwaitExit(), 5);
  EXPECT_THAT(ranks_[0]->output(),
              AllOf(HasSubstr("sluice: rank "), HasSubstr(", action "), HasSubstr(": hangs"),
                    HasSubstr("dnnl_primitive_execute < sluice::"),
                    HasSubstr(" < sluice::Executor::Run()")));
}

TEST_F(HangingRun, OnTheDiskOfOneProcess) {
  StartHere(Saving());
  Hang("sync_file_range");
  EXPECT_EQ(ranks_[0]->AwaitExit(), 5);
  EXPECT_THAT(ranks_[0]->output(),
              AllOf(HasSubstr(": hangs while it writes a checkpoint to the disk"),
                    HasSubstr("sync_file_range < sluice::SharedFile::Sync()")));
}

// Rank 0 may miss rank 1 before that has been quiet for as long; then both say what they know.
TEST_F(HangingRun, InAKernelOfOneRankOfTwo) {
  StartOverTcp();
  Hang("dnnl_primitive_execute");
  for (const auto& rank : ranks_) EXPECT_EQ(rank->AwaitExit(), 5) << rank->output();
  EXPECT_THAT(absl::StrCat(ranks_[0]->output(), ranks_[1]->output()),
              AllOf(HasSubstr("rank 1, stage 1, micro-batch "), HasSubstr(": hangs"),
                    HasSubstr("dnnl_primitive_execute < sluice::")));
}

// No other rank waits for the disk itself, so all that rank 0 knows is what rank 1 tells it.
TEST_F(HangingRun, OnTheDiskOfOneRankOfTwo) {
  StartOverTcp(Saving());
  Hang("sync_file_range");
  for (const auto& rank : ranks_) EXPECT_EQ(rank->AwaitExit(), 5) << rank->output();
  EXPECT_THAT(
      ranks_[0]->output(),
      AllOf(HasSubstr("rank 1"), HasSubstr("hangs while it writes a checkpoint to the disk"),
            HasSubstr("sync_file_range < sluice::SharedFile::Sync()"),
            Not(HasSubstr("did not come in time"))));
  EXPECT_THAT(ranks_[1]->output(), Not(HasSubstr("sluice: ")));
}

// A process that cannot look at itself is named by the others; once it goes on, it ends as they
// have.
TEST_F(HangingRun, BecauseAProcessIsStopped) {
  StartOverTcp();
  ranks_[1]->Stop();
  EXPECT_EQ(ranks_[0]->AwaitExit(), 5);
  EXPECT_THAT(ranks_[0]->output(), HasSubstr("nothing has been heard of rank 1"));
  kill(ranks_[1]->pid(), SIGCONT);
  EXPECT_EQ(ranks_[1]->AwaitExit(), 5);
  EXPECT_THAT(ranks_[1]->output(), Not(HasSubstr("hangs")));
}

// Time in which a process is stopped does not count.
TEST_F(HangingRun, IsNotAPauseOfTheWholeRun) {
  StartHere();
  ranks_[0]->Stop();
  absl::SleepFor(kTimeout + absl::Seconds(2));
  kill(ranks_[0]->pid(), SIGCONT);
  int steps = 0;
  const std::string& output = ranks_[0]->output();
  for (size_t at = 0; (at = output.find("step_seconds", at)) != std::string::npos; ++at) ++steps;
  // Far more than were under way to the output before.
  EXPECT_TRUE(ranks_[0]->AwaitOutput("step_seconds", steps + 1000)) << ranks_[0]->output();
  kill(ranks_[0]->pid(), SIGINT);
  EXPECT_EQ(ranks_[0]->AwaitExit(), 130);
}

}  // namespace
}  // namespace sluice
