// Runs whose ranks come and go: whatever happens between two groups, the losses and the final weights
// are those of a run that nothing happened to.
#include "pipeline/recover/recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/local/in_process.h"
#include "tests/all_faults.h"
#include "tests/comm/forwarding_communicator.h"
#include "tests/pipeline/small_run.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

// An end of a group that becomes deaf after the `fails_at`-th time that all ranks have met: the others
// have met it, but it has learnt nothing of them.
class DeafRank : public ForwardingCommunicator {
 public:
  DeafRank(Communicator* inner, int fails_at) : ForwardingCommunicator(inner), left_(fails_at) {}
  absl::Status AllGather(absl::Span<const double> mine, absl::Span<double> all,
                         Instant deadline) override {
    absl::Status status = inner().AllGather(mine, all, deadline);
    if (status.ok() && --left_ == 0) status = absl::UnavailableError("this rank is deaf");
    return status;
  }

 private:
  int left_;
};

// A run of processes, which stand for themselves here as what they hold.
class Processes {
 public:
  explicit Processes(int64_t steps) : options_(SmallOptions(steps)) {
    options_.watching.timeout = absl::Seconds(60);
  }

  TrainOptions& options() { return options_; }
  std::vector<HeldState>& held() { return held_; }
  const std::map<int64_t, std::string>& losses() const { return losses_; }
  int64_t first_step() const { return first_step_; }

  struct Asked {
    int64_t regroup_at = -1;  // the step after which the group ends; -1: never
    int deaf = -1;            // rank that becomes deaf ...
    int deaf_at = 0;          // ... at this meeting
    std::string checkpoints = {};
  };

  // Trains as the ranks of `run`; processes beyond these only give what they hold.
  std::vector<absl::StatusOr<TrainResult>> Train(const SmallRun& run, const Asked& asked) {
    const auto plan = std::make_shared<const RunPlan>(MakePlan(run));
    const int ranks = plan->world_size();
    const int all = std::max<int>(ranks, static_cast<int>(held_.size()));
    held_.resize(static_cast<size_t>(all));
    const HashedData data(plan->request.spec, plan->request.batch.seq, plan->request.documents);
    InProcessGroup everybody(all, EdgeCapacity(*plan));
    InProcessGroup working(ranks, EdgeCapacity(*plan));
    std::vector<absl::StatusOr<TrainResult>> results(static_cast<size_t>(all));
    std::atomic<bool> regroup{false};
    std::vector<std::thread> threads;
    for (int rank = 0; rank < all; ++rank) {
      threads.emplace_back([&, rank] {
        HeldState& held = held_[static_cast<size_t>(rank)];
        absl::StatusOr<TrainResult>& result = results[static_cast<size_t>(rank)];
        if (rank >= ranks) {
          const absl::Status given =
              GiveState(&held, options_.watching.timeout, everybody.communicator(rank));
          result = given.ok() ? absl::StatusOr<TrainResult>(TrainResult()) : given;
          return;
        }
        TrainEvents events;
        events.on_begin = [this](int64_t step) { first_step_ = step; };
        events.on_step = [&](const StepMetrics& metrics) {
          const std::string loss = LossHex(metrics.loss);
          EXPECT_EQ(losses_.emplace(metrics.step, loss).first->second, loss);
          if (metrics.step == asked.regroup_at) regroup.store(true);
        };
        DeafRank deaf(&working.communicator(rank), asked.deaf_at);
        Regrouping regrouping;
        regrouping.held = &held;
        regrouping.all = &everybody.communicator(rank);
        regrouping.world = [&]() -> absl::StatusOr<Communicator*> {
          if (rank == asked.deaf) return &deaf;
          return &working.communicator(rank);
        };
        regrouping.regroup = &regroup;
        regrouping.checkpoints = asked.checkpoints;
        result = TrainMember(plan, data, options_, events, nullptr, regrouping);
        if (!result.ok()) working.communicator(rank).Abort(result.status());
      });
    }
    for (std::thread& thread : threads) thread.join();
    held_.resize(static_cast<size_t>(ranks));
    return results;
  }

  // Trains to the end, and compares with `quiet`.
  void ExpectEnd(const SmallRun& run, const Outcome& quiet) {
    const auto results = Train(run, {});
    for (const auto& result : results) ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(results.front()->summary.weights_hash, quiet.weights_hash);
    EXPECT_EQ(results.front()->summary.eval_loss, quiet.eval_loss);
    ExpectWholeRun(results.front()->summary, quiet);
    std::vector<std::string> losses;
    for (const auto& [step, loss] : losses_) losses.push_back(loss);
    EXPECT_EQ(losses, quiet.losses);
  }

  // Of all groups of ranks, not of the last one.
  void ExpectWholeRun(const TrainSummary& summary, const Outcome& quiet) const {
    EXPECT_EQ(summary.steps, options_.training.steps);
    EXPECT_EQ(summary.steps_taken, options_.training.steps);
    EXPECT_EQ(LossHex(summary.final_loss), quiet.losses.back());
    EXPECT_GT(summary.median_step_seconds, 0);
  }

 private:
  TrainOptions options_;
  std::vector<HeldState> held_;
  std::map<int64_t, std::string> losses_;
  int64_t first_step_ = -1;
};

// Ways to cut one and the same run.
std::vector<SmallRun> Layouts(const SmallRun& of) {
  std::vector<SmallRun> layouts;
  const auto add = [&](const std::string& schedule, int ranks, int chunks, int replicas, int zero) {
    SmallRun run = of;
    run.schedule = schedule;
    run.ranks = ranks;
    run.chunks = chunks;
    run.replicas = replicas;
    run.zero = zero;
    run.micro_batches = 4 / replicas;
    run.sum_groups = 4;
    layouts.push_back(run);
  };
  add("1f1b", 1, 1, 1, 0);
  add("1f1b", 2, 1, 1, 0);
  add("gpipe", 3, 1, 1, 0);
  add("zb-h1", 4, 1, 1, 0);
  add("interleaved", 2, 2, 1, 0);
  add("zbv", 2, 2, 1, 0);
  add("1f1b", 1, 1, 2, 0);
  add("1f1b", 2, 1, 2, 0);
  add("1f1b", 1, 1, 4, 0);
  add("gpipe", 1, 1, 2, 1);
  add("1f1b", 2, 1, 2, 1);
  add("1f1b", 1, 1, 4, 2);
  return layouts;
}

std::vector<SmallRun> ReshardedModels() {
  return {{.model = "wide_tied"},
          {.model = "wide", .dtype = DType::kBFloat16, .master_weights = MasterWeights::kSplit},
          {.model = "mlp", .optimizer = OptimizerKind::kSgd},
          {.model = "gpt", .adapted = "lora"}};
}

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
      for (const auto& result : processes.Train(from, {.regroup_at = 1})) {
        ASSERT_TRUE(result.ok()) << result.status();
      }
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

// A rank's neighbour holds what it holds, at every step; not what two neighbours hold.
TEST(RecoveryTest, AMirrorStandsForALostRank) {
  constexpr int64_t kSteps = 4;
  for (const SmallRun& base :
       {SmallRun{.model = "wide_tied", .ranks = 3},
        SmallRun{.model = "wide",
        .ranks = 2,
        .dtype = DType::kBFloat16,
        .master_weights = MasterWeights::kSplit},
        SmallRun{.model = "gpt", .schedule = "zbv", .ranks = 2, .chunks = 2, .adapted = "lora"}}) {
    SmallRun run = base;
    const Outcome& quiet = OutcomeOnce(run, kSteps);
    run.mirror = true;
    for (int lost = 0; lost < run.ranks; ++lost) {
      // At the end of a step; and where another rank has missed an agreement, so that both the state
      // and its mirror are a step behind.
      for (const int deaf_at : {0, 6, 7, 8, 9}) {
        SCOPED_TRACE(testing::Message()
                     << run.Name() << " without rank " << lost << ", deaf at " << deaf_at);
        Processes processes(kSteps);
        const int deaf = (lost + 1) % run.ranks;
        if (deaf_at == 0) {
          (void)processes.Train(run, {.regroup_at = 2});
        } else {
          (void)processes.Train(run, {.deaf = deaf, .deaf_at = deaf_at});
        }
        const int64_t taken = processes.held()[static_cast<size_t>(deaf)].last.step;
        processes.held()[static_cast<size_t>(lost)] = {};
        processes.ExpectEnd(run, quiet);
        EXPECT_GE(processes.first_step(), taken);
        if (deaf_at == 0) {
          EXPECT_EQ(processes.first_step(), 3);
        }
      }
    }
  }
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
