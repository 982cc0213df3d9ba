// Runs whose ranks come and go: whatever happens between two groups, the losses and the final weights
// are those of a run that nothing happened to.
#include "pipeline/recover/recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "models/device/device.h"
#include "models/kernels/kernel_threads.h"
#include "tests/all_faults.h"
#include "tests/comm/counts_meetings.h"
#include "tests/comm/forwarding_communicator.h"
#include "tests/pipeline/recover/processes.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

class ReshardTest : public testing::TestWithParam<size_t> {};

// 12 x 12: each layout hands its state to each other one, through memory. Each pair is tried with one
// of the models, or with all of them (AllFaults).
TEST_P(ReshardTest, GoesOnInAnyOtherLayout) {
  constexpr int64_t kSteps = 3;  // one of them after the move
  const std::vector<SmallRun> models = ReshardedModels();
  const std::vector<SmallRun> layouts = Layouts(models[GetParam()]);
  const Outcome& quiet = OutcomeOnce(layouts.front(), kSteps);
  size_t pair = 0;
  for (const SmallRun& from : layouts) {
    for (const SmallRun& to : layouts) {
      // The rows have 12 pairs, so that a row has every model, and so has a column.
      const size_t model = (pair + pair / layouts.size()) % models.size();
      if (++pair % 7 != 0 && kSanitized) continue;
      if (model != GetParam() && !AllFaults()) continue;
      SCOPED_TRACE(from.Name() + " to " + to.Name());
      Processes processes(kSteps);
      processes.TrainUntil(from, 1);
      processes.ExpectEnd(to, quiet);
      ASSERT_EQ(processes.losses().size(), size_t{kSteps});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ReshardTest, testing::Range(size_t{0}, ReshardedModels().size()),
                         [](const testing::TestParamInfo<size_t>& model) {
                           return ReshardedModels()[model.param].Name();
                         });

// One rank becomes deaf at each meeting of a run in turn, so that it is a step behind the others in
// some cases, and in the middle of every phase in others. All keep what they hold.
TEST(RecoveryTest, GoesOnFromTheNewestStepWhereverARankStops) {
  constexpr int64_t kSteps = 3;
  SmallRun run{.model = "gpt", .ranks = 2};
  run.sum_groups = 4;
  SmallRun other = run;
  other.ranks = 3;
  const Outcome& quiet = OutcomeOnce(run, kSteps);
  std::map<int64_t, int> first_steps;
  int at = 1;
  for (bool ended = false; !ended; ++at) {
    for (const SmallRun& next : {run, other}) {
      SCOPED_TRACE(testing::Message() << "meeting " << at << ", then " << next.Name());
      Processes processes(kSteps);
      const auto results = processes.Train(run, {.deaf = 1, .deaf_at = at});
      ended = results.front().ok();
      if (ended) break;
      for (const auto& result : results) EXPECT_TRUE(absl::IsUnavailable(result.status()));
      processes.ExpectEnd(next, quiet);
      ++first_steps[processes.first_step()];
    }
  }
  // Nothing was ever lost: after the meeting of step n, the next group begins after step n.
  EXPECT_THAT(first_steps, testing::ElementsAre(testing::Key(0), testing::Key(1), testing::Key(2),
                                                testing::Key(3)));
  EXPECT_GE(at, 8);
}

// Where a stage's state is lost, all go back to the newest checkpoint, or to the beginning.
TEST(RecoveryTest, GoesBackToTheCheckpointWhereStateIsLost) {
  constexpr int64_t kSteps = 5;
  const std::filesystem::path directory =
      std::filesystem::path(testing::TempDir()) / "recovery_checkpoints";
  std::filesystem::remove_all(directory);
  SmallRun run{.model = "gpt", .ranks = 2};
  const Outcome& quiet = OutcomeOnce(run, kSteps);
  for (const bool saves : {false, true}) {
    for (const int lost : {0, 1}) {
      SCOPED_TRACE(testing::Message() << "rank " << lost << (saves ? ", saves" : ""));
      Processes processes(kSteps);
      if (saves) {
        processes.options().saving.directory = directory.string();
        processes.options().saving.every = 2;
      }
      (void)processes.Train(run, {.regroup_at = 2});  // it ends after step 3
      processes.held()[static_cast<size_t>(lost)] = {};
      const auto results =
          processes.Train(run, {.checkpoints = saves ? directory.string() : std::string()});
      ASSERT_TRUE(results.front().ok()) << results.front().status();
      EXPECT_EQ(results.front()->summary.weights_hash, quiet.weights_hash);
      EXPECT_EQ(processes.first_step(), saves ? 2 : 0);
      // Without those that were taken twice.
      processes.ExpectWholeRun(results.front()->summary, quiet);
      std::filesystem::remove_all(directory);
    }
  }
}

// An end of a group that is lost once a checkpoint has been saved in the background, before anybody
// has asked how that ended.
class LostOnceSaved : public ForwardingCommunicator {
 public:
  // `latest`: the link that is there from then on.
  LostOnceSaved(Communicator* inner, std::string latest)
      : ForwardingCommunicator(inner), background_(inner->background(), std::move(latest)) {}
  Communicator* background() override {
    left_ = 2;  // the ranks meet once more before they save
    return &background_;
  }
  absl::Status AllGather(absl::Span<const double> mine, absl::Span<double> all,
                         Instant deadline) override {
    if (--left_ != 0) return inner().AllGather(mine, all, deadline);
    background_.saved.wait(false);
    return absl::UnavailableError("this rank is lost");
  }

 private:
  struct Background : ForwardingCommunicator {
    Background(Communicator* inner, std::string link)
        : ForwardingCommunicator(inner), latest(std::move(link)) {}
    absl::Status AllGather(absl::Span<const double> mine, absl::Span<double> all,
                           Instant deadline) override {
      absl::Status status = inner().AllGather(mine, all, deadline);
      if (status.ok() && std::filesystem::exists(latest)) {
        saved.store(true);
        saved.notify_all();
      }
      return status;
    }
    const std::string latest;
    std::atomic<bool> saved{false};
  };
  Background background_;
  int left_ = 0;
};

// Its group ends while it evaluates, which the next one does.
TEST(RecoveryTest, ACheckpointThatIsThereIsToldOf) {
  constexpr int64_t kSteps = 4;
  const SmallRun run{.model = "gpt", .ranks = 2};
  const std::filesystem::path directory =
      std::filesystem::path(testing::TempDir()) / "recovery_told";
  std::filesystem::remove_all(directory);
  Processes processes(kSteps);
  processes.options().saving.directory = directory.string();
  processes.options().saving.every = processes.options().watching.eval_every = 2;
  const auto results =
      processes.Train(run, {.around_leader = [&](Communicator* world) {
                        return std::make_unique<LostOnceSaved>(world, directory / "latest");
                      }});
  EXPECT_EQ(results.front().status().message(), "this rank is lost");
  EXPECT_THAT(processes.checkpoints(), testing::ElementsAre(directory / "step-00000002"));
  EXPECT_THAT(processes.evaluations(), testing::IsEmpty());
  processes.ExpectEnd(run, OutcomeOnce(run, kSteps));
  EXPECT_EQ(processes.first_step(), 2);
  EXPECT_THAT(processes.checkpoints(),
              testing::ElementsAre(directory / "step-00000002", directory / "step-00000004"));
  EXPECT_THAT(processes.evaluations(), testing::ElementsAre(2, kSteps));
  std::filesystem::remove_all(directory);
}

// Wherever a rank stops, before, while or after the group does it.
TEST(RecoveryTest, WhatIsDueAfterAStepIsDoneOnce) {
  constexpr int64_t kSteps = 3;
  const SmallRun run{.model = "mlp", .ranks = 2};
  const std::filesystem::path directory =
      std::filesystem::path(testing::TempDir()) / "recovery_due";
  const std::vector<std::string> wanted = {directory / "step-00000002",
                                           directory / "step-00000003"};
  int after_2 = 0, after_3 = 0;
  for (int at = 1;; ++at) {
    SCOPED_TRACE(testing::Message() << "meeting " << at);
    std::filesystem::remove_all(directory);
    Processes processes(kSteps);
    processes.options().saving.directory = directory.string();
    processes.options().saving.every = processes.options().watching.eval_every = 2;
    if (processes.Train(run, {.deaf = 1, .deaf_at = at}).front().ok()) break;
    processes.ExpectEnd(run, OutcomeOnce(run, kSteps));
    EXPECT_THAT(processes.evaluations(), testing::ElementsAre(2, kSteps));
    after_2 += processes.first_step() == 2 ? 1 : 0;
    after_3 += processes.first_step() == 3 ? 1 : 0;
    // The next step may be taken before the checkpoint is whole.
    if (processes.first_step() == 3 && processes.checkpoints().size() == 1) continue;
    EXPECT_EQ(processes.checkpoints(), wanted);
  }
  EXPECT_GE(after_2, 4);
  EXPECT_GE(after_3, 4);
  std::filesystem::remove_all(directory);
}

// It is asked to, after a step at which it leaves the evaluation to the next one.
TEST(RecoveryTest, AGroupThatLeavesEvaluatesNoMore) {
  constexpr int64_t kSteps = 4;
  const SmallRun run{.model = "mlp", .ranks = 2};
  Processes processes(kSteps);
  processes.options().watching.eval_every = 2;
  processes.TrainUntil(run, 1);  // it ends after step 2
  EXPECT_THAT(processes.evaluations(), testing::IsEmpty());
  processes.ExpectEnd(run, OutcomeOnce(run, kSteps));
  EXPECT_THAT(processes.evaluations(), testing::ElementsAre(2, kSteps));
}

// A run removes the checkpoint that it was resumed from, and needs it no more: not where all state
// is left, nor where a rank is lost, nor for a process that comes in its place.
TEST(RecoveryTest, ARunOutlivesTheCheckpointThatItWasResumedFrom) {
  constexpr int64_t kSteps = 6;
  const std::filesystem::path directory =
      std::filesystem::path(testing::TempDir()) / "recovery_pruned";
  SmallRun run{.model = "gpt", .ranks = 2};
  const Outcome& quiet = OutcomeOnce(run, kSteps);
  struct Loss {
    bool state, process;
  };
  for (const Loss lost : {Loss{false, false}, {true, false}, {true, true}, {false, true}}) {
    SCOPED_TRACE(testing::Message() << "state " << lost.state << ", process " << lost.process);
    std::filesystem::remove_all(directory);
    Processes processes(kSteps);
    Saving& saving = processes.options().saving;
    saving.directory = directory.string();
    saving.every = 1;
    saving.keep = 1;
    processes.TrainUntil(run, 1);  // it ends after step 2
    saving.resume = std::filesystem::canonical(directory / "latest").string();
    processes.held().clear();
    processes.TrainUntil(run, 3);
    ASSERT_FALSE(std::filesystem::exists(saving.resume));
    if (lost.state) processes.held()[0] = {};
    if (lost.process) processes.resumed()[0] = {};
    const auto results = processes.Train(run, {.checkpoints = directory.string()});
    for (const auto& result : results) ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(results.front()->summary.weights_hash, quiet.weights_hash);
  }
  std::filesystem::remove_all(directory);
}

// What is frozen is in no mirror: it comes from the checkpoint that the run was resumed from, or
// from one that it has made since, and not from the seed.
TEST(RecoveryTest, FrozenWeightsOfAResumedRunComeFromACheckpoint) {
  constexpr int64_t kSteps = 6;
  const std::filesystem::path directory =
      std::filesystem::path(testing::TempDir()) / "recovery_frozen";
  SmallRun run{.model = "wide", .ranks = 2, .adapted = "freeze"};
  // They are not those of the run's own seed.
  const std::filesystem::path base = directory / "base";
  std::filesystem::remove_all(directory);
  TrainOptions first = SmallOptions(1);
  first.training.seed = 77;
  first.saving.directory = base.string();
  ASSERT_EQ(Train(MakePlan({.model = "wide"}), first).status(), absl::OkStatus());
  TrainOptions whole = SmallOptions(kSteps);
  whole.saving.init = (base / "latest").string();
  const absl::StatusOr<Outcome> quiet = Train(MakePlan(run), whole);
  ASSERT_TRUE(quiet.ok()) << quiet.status();
  run.mirror = true;
  SmallRun fewer = run;
  fewer.ranks = 1;
  fewer.mirror = false;
  struct Case {
    int lost;
    bool process;  // another one comes in its place
    bool saves;    // and has removed the checkpoint that it was resumed from
  };
  for (const Case& each : {Case{0, true, false},
                           {1, true, false},
                           {1, true, true},
                           {0, true, true},
                           {1, false, false},
                           {1, false, true}}) {
    SCOPED_TRACE(testing::Message() << "rank " << each.lost << ", process " << each.process
                                    << ", saves " << each.saves);
    const std::filesystem::path saved = directory / "run";
    std::filesystem::remove_all(saved);
    Processes processes(kSteps);
    Saving& saving = processes.options().saving;
    saving.init = whole.saving.init;
    saving.directory = saved.string();
    saving.every = 1;
    saving.keep = 1;
    processes.TrainUntil(run, 1);  // it ends after step 2
    saving.init.clear();
    saving.resume = std::filesystem::canonical(saved / "latest").string();
    if (!each.saves) saving.directory.clear();
    processes.held().clear();
    processes.TrainUntil(run, 3);
    ASSERT_EQ(std::filesystem::exists(saving.resume), !each.saves);
    if (each.process) {
      processes.held()[static_cast<size_t>(each.lost)] = {};
      processes.resumed()[static_cast<size_t>(each.lost)] = {};
    } else {
      processes.held().resize(1);  // rank 0 does the work of both
    }
    const auto results =
        processes.Train(each.process ? run : fewer, {.checkpoints = saving.directory});
    for (const auto& result : results) ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(processes.first_step(), 4);  // from memory
    EXPECT_EQ(results.front()->summary.weights_hash, quiet->weights_hash);
  }
  std::filesystem::remove_all(directory);
}

// A rank that comes in another's place reads what is frozen again: where that has been written to
// since, the run would go on with half of each.
TEST(RecoveryTest, FrozenWeightsThatHaveChangedEndTheRun) {
  constexpr int64_t kSteps = 4;
  const std::filesystem::path base =
      std::filesystem::path(testing::TempDir()) / "recovery_changed_base";
  for (const char* adapted : {"lora", "freeze"}) {
    for (const bool changes : {false, true}) {
      for (const int ranks : {2, 1}) {  // of the second group
        SCOPED_TRACE(testing::Message() << adapted << ", changes " << changes << ", " << ranks);
        std::filesystem::remove_all(base);
        TrainOptions first = SmallOptions(1);
        first.training.seed = 77;
        first.saving.directory = base.string();
        ASSERT_EQ(Train(MakePlan({.model = "wide"}), first).status(), absl::OkStatus());
        SmallRun run{.model = "wide", .ranks = 2, .adapted = adapted};
        run.mirror = true;
        Processes processes(kSteps);
        processes.options().saving.init = (base / "latest").string();
        processes.TrainUntil(run, 2);
        // The last blocks are rank 1's, whose state is lost.
        processes.held()[1] = {};
        if (changes) {
          std::filesystem::remove_all(base);
          first.training.seed = 78;
          ASSERT_EQ(Train(MakePlan({.model = "wide"}), first).status(), absl::OkStatus());
        }
        if (ranks == 1) {
          processes.held().resize(1);
          run.mirror = false;
        }
        run.ranks = ranks;
        const auto results = processes.Train(run, {});
        for (const auto& result : results) {
          EXPECT_EQ(result.status().code(),
                    changes ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kOk)
              << result.status();
          EXPECT_THAT(std::string(result.status().message()),
                      testing::HasSubstr(changes ? "has changed since the run began" : ""));
        }
      }
    }
  }
  std::filesystem::remove_all(base);
}

// Not for two neighbours.
TEST(RecoveryTest, AMirrorStandsForALostRank) {
  constexpr int64_t kSteps = 4;
  for (const SmallRun& run :
       {SmallRun{.model = "wide_tied", .ranks = 3},
        SmallRun{.model = "wide",
        .ranks = 2,
        .dtype = DType::kBFloat16,
        .master_weights = MasterWeights::kSplit},
        SmallRun{.model = "gpt", .schedule = "zbv", .ranks = 2, .chunks = 2, .adapted = "lora"}})
    ExpectMirrorsStandForLostRanks(run);
  SmallRun run{.model = "gpt", .ranks = 4};
  const Outcome& quiet = OutcomeOnce(run, kSteps);
  run.mirror = true;
  for (const bool neighbours : {false, true}) {
    Processes processes(kSteps);
    (void)processes.Train(run, {.regroup_at = 2});
    processes.held()[0] = {};
    processes.held()[neighbours ? 1 : 2] = {};
    processes.ExpectEnd(run, quiet);
    EXPECT_EQ(processes.first_step(), neighbours ? 0 : 3);
  }
}

// A model's frozen weights may be large: whoever reads them meets the others meanwhile.
TEST(RecoveryTest, FrozenWeightsMayTakeLongToLoad) {
  SmallRun run{.model = "gpt", .ranks = 2, .adapted = "lora"};
  run.mirror = true;
  Processes processes(/*steps=*/4);
  processes.TrainUntil(run, 2);
  HeldState& kept = processes.held()[0];
  HeldState lost;
  const KernelThreads threads(kept.plan->request.threads_per_stage);
  const auto state = RankState::Create(*kept.plan, 1, CpuDevice());
  ASSERT_TRUE(state.ok()) << state.status();
  InProcessGroup group(2, EdgeCapacity(*kept.plan));
  CountsMeetings first(&group.communicator(0));
  bool loaded = false;
  const auto load = [&] {
    const int before = first.meetings;
    const Instant patience = Instant::Now() + absl::Seconds(30);
    while (first.meetings < before + 3 && Instant::Now() < patience)
      absl::SleepFor(absl::Milliseconds(1));
    loaded = first.meetings >= before + 3;
    return absl::OkStatus();
  };
  constexpr absl::Duration kTimeout = absl::Seconds(4);
  const auto to = [](RankState* filled) {
    return [filled] { return absl::StatusOr<RankState*>(filled); };
  };
  const auto never = [] { return absl::InternalError("it has all frozen weights"); };
  std::thread other([&] {
    const auto recovered = Recover(
        {.held = &kept, .into = to(kept.state.get()), .load_frozen = never, .timeout = kTimeout},
        first);
    EXPECT_TRUE(recovered.ok()) << recovered.status();
  });
  const auto recovered =
      Recover({.held = &lost, .into = to(state->get()), .load_frozen = load, .timeout = kTimeout},
              group.communicator(1));
  other.join();
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_TRUE(recovered->has_value());
  EXPECT_TRUE(loaded);
}

// A replica holds what its peers hold.
TEST(RecoveryTest, AReplicaStandsForALostOne) {
  constexpr int64_t kSteps = 4;
  SmallRun run{.model = "gpt", .ranks = 2, .micro_batches = 2, .sum_groups = 4, .replicas = 2};
  const Outcome& quiet = OutcomeOnce(run, kSteps);
  for (const std::vector<size_t>& lost : {std::vector<size_t>{0}, {1}, {2}, {3}, {0, 3}, {1, 2}}) {
    Processes processes(kSteps);
    (void)processes.Train(run, {.regroup_at = 2});
    for (const size_t rank : lost) processes.held()[rank] = {};
    processes.ExpectEnd(run, quiet);
    EXPECT_EQ(processes.first_step(), 3);
  }
  Processes processes(kSteps);
  (void)processes.Train(run, {.regroup_at = 2});
  processes.held()[0] = {};
  processes.held()[2] = {};  // both that hold stage 0
  processes.ExpectEnd(run, quiet);
  EXPECT_EQ(processes.first_step(), 0);
}

}  // namespace
}  // namespace sluice
