// `sluice test`, and how it says that bits differ.
#include "tools/self_test/self_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/built_files.h"
#include "tests/tools/sluice_process.h"
#include "tools/command.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

WayResult Result(const std::vector<std::string>& losses, const std::string& hash) {
  WayResult result;
  result.losses = losses;
  result.weights_hash = hash;
  return result;
}

TEST(SelfTest, TheFirstDifferenceIsNamed) {
  const WayResult first = Result({"0x1", "0x2"}, "aa");
  EXPECT_EQ(FirstDifference(first, first), "");
  EXPECT_EQ(FirstDifference(first, Result({"0x1", "0x3"}, "bb")),
            "the loss of step 2 is 0x3 instead of 0x2");
  EXPECT_EQ(FirstDifference(first, Result({"0x1"}, "aa")), "1 step instead of 2");
  EXPECT_EQ(FirstDifference(first, Result({"0x1", "0x2"}, "bb")),
            "the weights are bb instead of aa");
}

TEST(SelfTest, AllWaysOfThisMachineGiveTheSameBits) {
  const ProcessResult result = RunSluice({"test", "--json"});
  ASSERT_EQ(result.exit_code, kExitDone) << result.err;
  const nlohmann::json found = nlohmann::json::parse(result.out);
  EXPECT_EQ(found["same_bits"], true);
  ASSERT_GE(found["runs"].size(), 5u);
  std::set<std::string> losses, weights;
  for (size_t run = 0; run < 5; ++run) {
    EXPECT_EQ(found["runs"][run]["losses_hex"].size(), 8u);
    losses.insert(found["runs"][run]["losses_hex"].dump());
    weights.insert(found["runs"][run]["weights_hash"].get<std::string>());
  }
  EXPECT_EQ(losses.size(), 1u);
  EXPECT_EQ(weights.size(), 1u);
}

TEST(SelfTest, OtherBitsAreFoundAndAFailureIsNamed) {
  std::vector<TrainingWay> ways = {{"one seed", "processor", {"train", "--seed", "1"}},
                                   {"a GPU's", "GPU", {"train", "--seed", "2"}},
                                   {"another seed", "processor", {"train", "--seed", "2"}}};
  int done = 0;
  const auto count = [&done](const WayResult&) { ++done; };
  const absl::StatusOr<std::vector<WayResult>> results = TrainInWays(SluiceProgram(), ways, count);
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(done, 3);
  EXPECT_EQ((*results)[1].difference, "") << "nothing of its kind came before it";
  EXPECT_EQ((*results)[2].reference, "one seed");
  EXPECT_THAT((*results)[2].difference, HasSubstr("the loss of step 1 is 0x"));

  ways.push_back({"no seed", "processor", {"train", "--seed", "x"}});
  const absl::Status failed = TrainInWays(SluiceProgram(), ways, count).status();
  EXPECT_THAT(std::string(failed.message()), HasSubstr("no seed failed: --seed: x is not a"));
  EXPECT_EQ(ExitCodeOf(failed), kExitBadInput);
}

}  // namespace
}  // namespace sluice
