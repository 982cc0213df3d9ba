// Ranks of the program over TCP, of which one computes wrong from some step on: all of them end, and
// rank 0 names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/built_files.h"
#include "tests/comm/faults/child.h"
#include "tests/comm/faults/free_port.h"
#include "tests/comm/faults/rank_group.h"
#include "tests/models/data/files.h"
#include "tests/tools/tiny_run.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class LyingRun : public testing::Test {
 protected:
  void SetUp() override { WriteText(folder_ / "text"); }

  // Rank 1 of `size` has the fault.
  void Start(int size, const std::string& fault) {
    const std::string flags = absl::StrCat(
        "--data ", folder_ / "text", " --layers 4 --save ", folder_ / "run",
        " --save-every 1 --keep 100 --steps 40 --json --audit 5 --transport tcp --stages ", size);
    std::vector<std::string> command = {SluiceProgram(), "train"};
    const std::vector<std::string> words =
        absl::StrSplit(WithTinyRun(flags), ' ', absl::SkipEmpty());
    command.insert(command.end(), words.begin(), words.end());
    const int port = FreePort();
    for (int rank = 0; rank < size; ++rank) {
      std::vector<std::string> variables = TorchrunEnvironment(rank, size, "127.0.0.1", port);
      if (rank == 1) variables.push_back("SLUICE_FAILPOINT=" + fault);
      ranks_.push_back(std::make_unique<Child>(command, variables));
    }
  }

  // All ranks end alike, and rank 0 says why.
  void ExpectEnd(const testing::Matcher<std::string>& said) {
    for (const auto& rank : ranks_) EXPECT_EQ(rank->AwaitExit(), 5) << rank->output();
    EXPECT_THAT(ranks_[0]->output(), said);
    for (size_t rank = 1; rank < ranks_.size(); ++rank)
      EXPECT_THAT(ranks_[rank]->output(), Not(HasSubstr("sluice: ")));
  }

  TempFolder folder_;
  RankGroup ranks_;
};

// Three ranks have 6 layers, so rank 1 has two; with two micro-batches it comes by the failpoint
// four times in a step, and the 30th time is in step 8. Step 10 is the next one that is audited.
TEST_F(LyingRun, NamesTheRankAndTheLastGoodCheckpoint) {
  Start(3, "rank1-forward.flip:30:vanish");
  ExpectEnd(
      AllOf(HasSubstr("sluice: rank 1, stage 1, micro-batch 1, audit of step 10: the hardware of "
                      "rank 1 computes wrong"),
            HasSubstr("step-00000004: go on from it with --resume")));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/step-00000004"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/step-00000010"));
}

// Of two ranks, too, one is found that loses a bit in memory, in the very step.
TEST_F(LyingRun, NamesMemoryThatLosesABit) {
  Start(2, "rank1-memory.flip:7:fail");
  ExpectEnd(AllOf(HasSubstr("sluice: rank 1, audit of step 7: the memory of rank 1 does not keep "
                            "what is written to it: transformer.h."),
                  HasSubstr("step-00000005: go on from it with --resume")));
}

}  // namespace
}  // namespace sluice
