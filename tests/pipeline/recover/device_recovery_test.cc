// The same on devices that do their work late: what ranks hold is on these, and what is queued there
// when a group ends is done, or has waited for messages that never came.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/all_faults.h"
#include "tests/pipeline/recover/processes.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

const FakeDevice::Options kLate = {.longest_pause = absl::Microseconds(50)};

// Each layout gives to one and takes from one.
TEST(DeviceRecoveryTest, GoesOnInAnotherLayout) {
  constexpr int64_t kSteps = 3;
  const std::vector<SmallRun> models = ReshardedModels();
  for (size_t model = 0; model < models.size(); ++model) {
    const std::vector<SmallRun> layouts = Layouts(models[model]);
    const Outcome& quiet = OutcomeOnce(layouts.front(), kSteps);
    for (size_t from = 0; from < layouts.size(); ++from) {
      const size_t to = (from * 5 + 3 + model) % layouts.size();
      if (kSanitized && from % models.size() != model) continue;
      SCOPED_TRACE(layouts[from].Name() + " to " + layouts[to].Name());
      Processes processes(kSteps, kLate);
      processes.TrainUntil(layouts[from], 1);
      processes.ExpectEnd(layouts[to], quiet);
      ASSERT_EQ(processes.losses().size(), size_t{kSteps});
    }
  }
}

// As on the CPU: nothing is lost where one rank becomes deaf at each meeting of a run in turn. What
// replicas divide among themselves they cannot update alone, so those go back to where they began where
// one has made an update that the other can no longer make.
TEST(DeviceRecoveryTest, GoesOnFromTheNewestStepWhereverARankStops) {
  constexpr int64_t kSteps = 3;
  SmallRun pipeline{.model = "gpt", .ranks = 2};
  pipeline.sum_groups = 4;
  SmallRun other = pipeline;
  other.ranks = 3;
  SmallRun sharded{.model = "gpt", .ranks = 1, .replicas = 2, .zero = 1};
  sharded.micro_batches = 2;
  sharded.sum_groups = 4;
  const Outcome& quiet = OutcomeOnce(pipeline, kSteps);
  for (const SmallRun& run : {pipeline, sharded}) {
    std::map<int64_t, int> first_steps;
    int at = 1;
    for (bool ended = false; !ended; ++at) {
      SCOPED_TRACE(testing::Message() << run.Name() << ", meeting " << at);
      Processes processes(kSteps, kLate);
      const auto results = processes.Train(run, {.deaf = 1, .deaf_at = at});
      ended = results.front().ok();
      if (ended) break;
      for (const auto& result : results) EXPECT_TRUE(absl::IsUnavailable(result.status()));
      processes.ExpectEnd(at % 2 == 0 ? run : other, quiet);
      ++first_steps[processes.first_step()];
    }
    EXPECT_GE(at, 8);
    if (run.zero > 0) continue;
    EXPECT_THAT(first_steps, testing::ElementsAre(testing::Key(0), testing::Key(1), testing::Key(2),
                                                  testing::Key(3)));
  }
}

TEST(DeviceRecoveryTest, AMirrorStandsForALostRank) {
  for (const SmallRun& run :
       {SmallRun{.model = "wide_tied", .ranks = 3}, SmallRun{.model = "wide",
                                                    .ranks = 2,
                                                    .dtype = DType::kBFloat16,
                                                    .master_weights = MasterWeights::kSplit}})
    ExpectMirrorsStandForLostRanks(run, kLate);
}

// No message arrives any more after each one of a run in turn. What ranks hold then is whole, or they
// say that it is not: work that waited for those messages has been done with whatever was there.
class LostMessageTest : public testing::Test {
 public:
  static constexpr int64_t kSteps = 3;

  // False where that is after the end of the run.
  bool Lose(const SmallRun& run, int64_t messages, const Outcome& quiet) {
    SCOPED_TRACE(testing::Message() << run.Name() << " after " << messages << " messages");
    Processes processes(kSteps, kLate);
    const auto results = processes.Train(run, {.messages = messages});
    if (results.front().ok()) return false;
    for (const auto& result : results) EXPECT_TRUE(absl::IsUnavailable(result.status()));
    if (run.mirror) processes.held()[static_cast<size_t>(messages % run.ranks)] = {};
    processes.ExpectEnd(run, quiet);
    first_steps_.insert(processes.first_step());
    return true;
  }
  // After each `every`-th message.
  void LoseInTurn(const SmallRun& run, int64_t every, const Outcome& quiet) {
    const int64_t step = AllFaults() ? 1 : (kSanitized ? 4 : 1) * every;
    for (int64_t messages = 0; Lose(run, messages, quiet);) messages += step;
    if (kSanitized) return;
    EXPECT_THAT(first_steps_, testing::IsSupersetOf({0, 1, 2}));
  }

 private:
  std::set<int64_t> first_steps_;  // after which the next group has begun
};

TEST_F(LostMessageTest, OfGradientsThatTwoStagesHave) {
  const SmallRun run{.model = "tied", .ranks = 2, .micro_batches = 2};
  LoseInTurn(run, 1, OutcomeOnce(run, kSteps));
}

TEST_F(LostMessageTest, OfWeightsThatReplicasHaveUpdatedForEachOther) {
  SmallRun run{.model = "gpt", .ranks = 1, .micro_batches = 2, .replicas = 2, .zero = 1};
  run.sum_groups = 4;
  LoseInTurn(run, 97, OutcomeOnce(run, kSteps));
}

TEST_F(LostMessageTest, OfWhatIsMirrored) {
  SmallRun run{.model = "tied", .ranks = 2, .micro_batches = 2};
  const Outcome& quiet = OutcomeOnce(run, kSteps);
  run.mirror = true;
  LoseInTurn(run, 83, quiet);
  // The last ones of the state that mirrors get before the first step: nothing is sent after them that
  // would fail.
  Processes processes(kSteps, kLate);
  (void)processes.Train(run, {.regroup_at = 1, .messages = INT64_MAX});
  for (int64_t last = 1; last <= 6; ++last) Lose(run, processes.messages_before() - last, quiet);
}

// A device that has no room for what a rank held and what it gets.
TEST(DeviceRecoveryTest, WhatIsHeldWaitsOnTheHostWhereTheDeviceIsFull) {
  constexpr int64_t kSteps = 4;
  SmallRun two{.model = "wide",
               .ranks = 2,
               .dtype = DType::kBFloat16,
               .master_weights = MasterWeights::kSplit};
  two.sum_groups = 4;
  SmallRun three = two;
  three.ranks = 3;
  const Outcome& quiet = OutcomeOnce(two, kSteps);
  for (const auto& [from, to] : {std::pair(two, three), std::pair(three, two)}) {
    int64_t most = 0, least = INT64_MAX;
    for (const SmallRun& run : {from, to}) {
      for (const ArenaLayout& arena : FakePlan(run).arenas) {
        most = std::max(most, arena.memory.total);
        least = std::min(least, arena.memory.total);
      }
    }
    ASSERT_LT(most, 2 * least);
    FakeDevice::Options full = kLate;
    full.memory = most;
    Processes processes(kSteps, full);
    processes.TrainUntil(from, 2);
    processes.ExpectEnd(to, quiet);
    EXPECT_EQ(processes.first_step(), 3);
    for (int rank = 0; rank < to.ranks; ++rank)
      EXPECT_EQ(&processes.held()[static_cast<size_t>(rank)].state->device(),
                &processes.device(rank));
  }
}

TEST(DeviceRecoveryTest, SaysWhereTheDeviceIsLost) {
  constexpr int64_t kSteps = 4;
  const SmallRun run{.model = "gpt", .ranks = 2};
  Processes processes(kSteps, kLate);
  (void)processes.Train(run, {.regroup_at = 2});
  processes.device(1).Lose(absl::UnavailableError("the bus has lost it"));
  const auto results = processes.Train(run, {});
  for (const auto& result : results) EXPECT_TRUE(absl::IsUnavailable(result.status()));
  EXPECT_EQ(processes.held()[0].device, absl::OkStatus());
  EXPECT_EQ(processes.held()[1].device.message(), "the bus has lost it");
  EXPECT_FALSE(processes.held()[1].whole);
}

}  // namespace
}  // namespace sluice
