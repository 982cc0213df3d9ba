// The same on devices that do their work late: what ranks hold is on these, and what is queued there
// when a group ends is done, or has waited for messages that never came.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "tests/all_faults.h"
#include "tests/comm/counts_meetings.h"
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

// Two ways to divide a run among devices that have no room for what a rank held and what it gets.
class FullDeviceTest : public testing::Test {
 public:
  static constexpr int64_t kSteps = 4;
  FullDeviceTest() : two_(Of(2)), three_(Of(3)), full_(kLate) {
    int64_t most = 0, least = INT64_MAX;
    for (const SmallRun& run : {two_, three_}) {
      for (const ArenaLayout& arena : FakePlan(run).arenas) {
        most = std::max(most, arena.memory.total);
        least = std::min(least, arena.memory.total);
      }
    }
    EXPECT_LT(most, 2 * least);
    full_.memory = most;
  }

  const Outcome& quiet() const { return OutcomeOnce(two_, kSteps); }
  static SmallRun Of(int ranks) {
    return {.model = "wide",
            .ranks = ranks,
            .dtype = DType::kBFloat16,
            .master_weights = MasterWeights::kSplit,
            .sum_groups = 4};
  }

 protected:
  const SmallRun two_, three_;
  FakeDevice::Options full_;
};

TEST_F(FullDeviceTest, WhatIsHeldWaitsOnTheHost) {
  for (const auto& [from, to] : {std::pair(two_, three_), std::pair(three_, two_)}) {
    Processes processes(kSteps, full_);
    processes.TrainUntil(from, 2);
    processes.ExpectEnd(to, quiet());
    EXPECT_EQ(processes.first_step(), 3);
    for (int rank = 0; rank < to.ranks; ++rank)
      EXPECT_EQ(&processes.held()[static_cast<size_t>(rank)].state->device(),
                &processes.device(rank));
  }
}

// Only the device can bring a rank that has missed an agreement to the newest step.
TEST_F(FullDeviceTest, WhatIsHeldHasHadTheNewestUpdate) {
  std::set<int64_t> first_steps;
  for (int at = 1;; ++at) {
    SCOPED_TRACE(testing::Message() << "meeting " << at);
    Processes processes(kSteps, full_);
    if (processes.Train(two_, {.deaf = 1, .deaf_at = at}).front().ok()) break;
    int64_t newest = 0;
    for (const HeldState& held : processes.held()) newest = std::max(newest, held.last.step);
    processes.ExpectEnd(three_, quiet());
    EXPECT_EQ(processes.first_step(), newest);
    first_steps.insert(newest);
  }
  EXPECT_THAT(first_steps, testing::ElementsAre(0, 1, 2, 3, 4));
}

// A device to which nothing comes before somebody says so.
class WaitingDevice : public FakeDevice {
 public:
  explicit WaitingDevice(std::function<bool()> comes) : comes_(std::move(comes)) {}
  void Copy(Stream stream, void* to, const void* from, size_t bytes) override {
    const Instant patience = Instant::Now() + absl::Seconds(30);
    while (!comes_() && Instant::Now() < patience) absl::SleepFor(absl::Milliseconds(1));
    FakeDevice::Copy(stream, to, from, bytes);
  }

 private:
  const std::function<bool()> comes_;
};

// Whoever reads them meets the others meanwhile; where nobody holds anything, too.
TEST(DeviceRecoveryTest, WeightsMayTakeLongToRead) {
  const SmallRun run{.model = "gpt", .ranks = 2};
  const auto plan = std::make_shared<const RunPlan>(FakePlan(run));
  const HashedData data(plan->request.spec, plan->request.batch.seq, plan->request.documents);
  for (const bool in_groups : {false, true}) {
    SCOPED_TRACE(in_groups);
    InProcessGroup group(2, EdgeCapacity(*plan));
    DeviceGroup connections(2, EdgeCapacity(*plan));
    CountsMeetings first(&group.communicator(0));
    FakeDevice quick;
    WaitingDevice slow([&] { return first.meetings >= 3; });
    std::array<HeldState, 2> held;
    const std::atomic<bool> regroup{false};
    const auto train = [&](int rank, FakeDevice* device, Communicator& world) {
      TrainOptions options = SmallOptions(/*steps=*/1);
      options.watching.timeout = absl::Seconds(4);
      options.running.devices = {RankOnDevice(device, rank, &connections)};
      if (!in_groups) return TrainRank(*plan, data, options, {}, nullptr, world).status();
      Regrouping regrouping;
      regrouping.held = &held[static_cast<size_t>(rank)];
      regrouping.all = &group.communicator(rank);
      regrouping.world = [&world] { return absl::StatusOr<Communicator*>(&world); };
      regrouping.regroup = &regroup;
      return TrainMember(plan, data, options, {}, nullptr, regrouping).status();
    };
    std::thread other([&] { EXPECT_EQ(train(1, &slow, group.communicator(1)), absl::OkStatus()); });
    EXPECT_EQ(train(0, &quick, first), absl::OkStatus());
    other.join();
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
