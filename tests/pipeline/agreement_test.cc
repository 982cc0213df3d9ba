#include "pipeline/train/start/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "comm/where.h"
#include "pipeline/run/rank_threads.h"
#include "tests/pipeline/small_run.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// The answer of each rank of a group after CheckAgreement; `traits`: [rank].
std::vector<absl::Status> Compare(const std::vector<std::vector<RunTrait>>& traits) {
  const int ranks = static_cast<int>(traits.size());
  InProcessGroup group(ranks);
  std::vector<absl::Status> said(traits.size());
  const absl::Status ran = RunRanks(group, ranks, {}, [&](int rank, Communicator& world) {
    said[static_cast<size_t>(rank)] =
        CheckAgreement(traits[static_cast<size_t>(rank)], world, absl::Seconds(30));
    return absl::OkStatus();
  });
  EXPECT_TRUE(ran.ok()) << ran;
  return said;
}

std::vector<RunTrait> Traits(uint64_t data, uint64_t seed) {
  return {{"the data", data}, {"the seed", seed}};
}

TEST(CheckAgreement, IsContentWithRanksThatAreAlike) {
  for (size_t ranks : {1, 2, 5}) {
    for (const absl::Status& said : Compare({ranks, Traits(0xfedcba9876543210, ~uint64_t{0})})) {
      EXPECT_TRUE(said.ok()) << said;
    }
  }
}

TEST(CheckAgreement, SaysTheSameOnEveryRankAndNamesWhoDiffersInWhat) {
  const std::vector<absl::Status> said =
      Compare({Traits(1, 7), Traits(1, 8), Traits(2, 7), Traits(1, 8)});
  for (const absl::Status& status : said) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(status, said[0]);
    EXPECT_EQ(WhereOf(status).moment, Where::Moment::kAgreement);
  }
  EXPECT_THAT(said[0].message(), HasSubstr("the data (rank 2); the seed (ranks 1 and 3)"));
}

TEST(CheckAgreement, ShowsValuesThatPeopleKnowAndSaysWhatToDo) {
  const auto computes = [](uint64_t hash, const std::string& with) {
    return std::vector<RunTrait>{
        {.name = "what computes", .hash = hash, .shown = with, .advice = "take one kind"},
        {"the seed", 7}};
  };
  const std::string longest(kLongestShown, 'x');
  const std::vector<absl::Status> said =
      Compare({computes(1, "AVX-512"), computes(1, "AVX-512"), computes(2, longest)});
  for (const absl::Status& status : said) EXPECT_EQ(status, said[0]);
  EXPECT_THAT(said[0].message(),
              HasSubstr("what computes (rank 2: " + longest + "; rank 0: AVX-512). take one kind"));
}

// Hashes are sent as doubles, in two halves: a difference in any bit must arrive.
TEST(CheckAgreement, SeesADifferenceInAnyBit) {
  constexpr uint64_t kBase = 0x8000000180000001;
  for (int bit = 0; bit < 64; ++bit) {
    for (const absl::Status& said :
         Compare({Traits(kBase, 1), Traits(kBase ^ (uint64_t{1} << bit), 1)})) {
      EXPECT_THAT(said.message(), HasSubstr("the data (rank 1)")) << "bit " << bit;
    }
  }
}

class NoPortions : public Portions {
 public:
  std::optional<Portion> Await(int64_t /*number*/) override { return std::nullopt; }
  bool EndsEarly() override { return false; }
  void Ended(int /*rank*/, const absl::StatusOr<TrainSummary>& /*summary*/) override {}
};

// Ranks exchange more where they trace, and where a program directs them.
TEST(TraitsOf, SayWhatDecidesWhichMessagesFollow) {
  const RunPlan plan = MakePlan({.ranks = 2});
  const HashedData data(plan.request.spec, plan.request.batch.seq);
  NoPortions portions;
  const TrainOptions plain = SmallOptions(1);
  TrainOptions traced = plain, directed = plain;
  traced.watching.trace = true;
  directed.portions = &portions;
  const auto said = [&](const TrainOptions& rank_0, const TrainOptions& rank_1) {
    return std::string(
        Compare({TraitsOf(plan, rank_0, data, {}), TraitsOf(plan, rank_1, data, {})})[0].message());
  };
  EXPECT_EQ(said(plain, plain), "");
  EXPECT_EQ(said(traced, traced), "");
  EXPECT_EQ(said(directed, directed), "");
  EXPECT_THAT(said(traced, plain), HasSubstr("--trace (rank 1: not given; rank 0: given)"));
  EXPECT_THAT(said(plain, directed), HasSubstr("--commands (rank 1: given; rank 0: not given)"));
}

}  // namespace
}  // namespace sluice
