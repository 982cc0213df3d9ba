#ifndef SLUICE_TESTS_PIPELINE_RECOVER_PROCESSES_H_
#define SLUICE_TESTS_PIPELINE_RECOVER_PROCESSES_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/local/in_process.h"
#include "pipeline/recover/recovery.h"
#include "tests/comm/deaf_rank.h"
#include "tests/comm/nccl/fake_nccl.h"
#include "tests/pipeline/fake_run.h"

namespace sluice {

// A run of processes, which stand for themselves here as what they hold.
class Processes {
 public:
  // `device`: each has one such device; none: they train on the CPU.
  explicit Processes(int64_t steps, const std::optional<FakeDevice::Options>& device = {})
      : options_(SmallOptions(steps)), device_(device) {
    options_.watching.timeout = absl::Seconds(60);
  }

  TrainOptions& options() { return options_; }
  std::vector<HeldState>& held() { return held_; }
  // [process]
  std::vector<std::optional<StartingPoint>>& resumed() { return resumed_; }
  FakeDevice& device(int process) { return *devices_[static_cast<size_t>(process)]; }
  const std::map<int64_t, std::string>& losses() const { return losses_; }
  // The checkpoints that all groups have told of, by path, and the steps of evaluations.
  const std::vector<std::string>& checkpoints() const { return checkpoints_; }
  const std::vector<int64_t>& evaluations() const { return evaluations_; }
  int64_t first_step() const { return first_step_; }
  // Over NCCL, before the first step.
  int64_t messages_before() const { return messages_before_; }

  struct Asked {
    int64_t regroup_at = -1;  // the step after which the group ends; -1: never
    int deaf = -1;            // rank that becomes deaf ...
    int deaf_at = 0;          // ... at this meeting
    std::string checkpoints = {};
    // Rank 0's end of the group that trains, around the one that it is given; empty: that one.
    std::function<std::unique_ptr<Communicator>(Communicator*)> around_leader = {};
    // Of ranks on devices: over NCCL, where no message after so many arrives.
    std::optional<int64_t> messages = {};
  };

  // Trains as the ranks of `run`; processes beyond these only give what they hold.
  std::vector<absl::StatusOr<TrainResult>> Train(const SmallRun& run, const Asked& asked) {
    const auto plan =
        std::make_shared<const RunPlan>(device_.has_value() ? FakePlan(run) : MakePlan(run));
    const int ranks = plan->world_size();
    const int all = std::max<int>(ranks, static_cast<int>(held_.size()));
    held_.resize(static_cast<size_t>(all));
    resumed_.resize(static_cast<size_t>(all));
    const HashedData data(plan->request.spec, plan->request.batch.seq, plan->request.documents);
    InProcessGroup everybody(all, EdgeCapacity(*plan));
    InProcessGroup working(ranks, EdgeCapacity(*plan));
    DeviceGroup connections(ranks, EdgeCapacity(*plan));
    FakeNccl nccl;
    if (asked.messages.has_value()) nccl.LoseAfter(*asked.messages);
    while (device_.has_value() && std::ssize(devices_) < all)
      devices_.push_back(std::make_unique<FakeDevice>(*device_));
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
        events.on_begin = [&](int64_t step) {
          first_step_ = step;
          messages_before_ = nccl.sent();
        };
        events.on_step = [&](const StepMetrics& metrics) {
          const std::string loss = LossHex(metrics.loss);
          EXPECT_EQ(losses_.emplace(metrics.step, loss).first->second, loss);
          if (metrics.step == asked.regroup_at) regroup.store(true);
        };
        events.on_checkpoint = [&](const SaveOutcome& saved) {
          checkpoints_.push_back(saved.path);
        };
        events.on_evaluation = [&](const Evaluation& evaluation) {
          evaluations_.push_back(evaluation.step);
        };
        DeafRank deaf(&working.communicator(rank), asked.deaf_at);
        std::unique_ptr<Communicator> around;
        if (rank == 0 && asked.around_leader)
          around = asked.around_leader(&working.communicator(rank));
        Regrouping regrouping;
        regrouping.held = &held;
        regrouping.all = &everybody.communicator(rank);
        regrouping.world = [&]() -> absl::StatusOr<Communicator*> {
          if (rank == asked.deaf) return &deaf;
          if (around != nullptr) return around.get();
          return &working.communicator(rank);
        };
        regrouping.regroup = &regroup;
        regrouping.checkpoints = asked.checkpoints;
        regrouping.resumed = &resumed_[static_cast<size_t>(rank)];
        TrainOptions options = options_;
        if (asked.messages.has_value()) {
          options.running.devices = {RankOverNccl(&device(rank), rank, *plan, &nccl)};
        } else if (device_.has_value()) {
          options.running.devices = {RankOnDevice(&device(rank), rank, &connections)};
        }
        result = TrainMember(plan, data, options, events, nullptr, regrouping);
        if (!result.ok()) working.communicator(rank).Abort(result.status());
      });
    }
    for (std::thread& thread : threads) thread.join();
    held_.resize(static_cast<size_t>(ranks));
    return results;
  }

  // Trains until the group has been asked to end after step `step`.
  void TrainUntil(const SmallRun& run, int64_t step) {
    for (const auto& result : Train(run, {.regroup_at = step}))
      ASSERT_TRUE(result.ok()) << result.status();
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
  const std::optional<FakeDevice::Options> device_;
  std::vector<std::unique_ptr<FakeDevice>> devices_;  // [process]; they outlive what it holds
  std::vector<HeldState> held_;
  std::vector<std::optional<StartingPoint>> resumed_;
  std::map<int64_t, std::string> losses_;
  std::vector<std::string> checkpoints_;
  std::vector<int64_t> evaluations_;
  int64_t first_step_ = -1;
  int64_t messages_before_ = 0;
};

// A rank's neighbour holds what it holds, at every step. `device`: as Processes takes it.
inline void ExpectMirrorsStandForLostRanks(SmallRun run,
                                           const std::optional<FakeDevice::Options>& device = {}) {
  constexpr int64_t kSteps = 4;
  const Outcome& quiet = OutcomeOnce(run, kSteps);
  run.mirror = true;
  for (int lost = 0; lost < run.ranks; ++lost) {
    // At the end of a step; and where another rank has missed an agreement, so that both the state
    // and its mirror are a step behind.
    for (const int deaf_at : {0, 7, 8, 9, 10}) {
      SCOPED_TRACE(testing::Message()
                   << run.Name() << " without rank " << lost << ", deaf at " << deaf_at);
      Processes processes(kSteps, device);
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

// Ways to cut one and the same run.
inline std::vector<SmallRun> Layouts(const SmallRun& of) {
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

inline std::vector<SmallRun> ReshardedModels() {
  return {{.model = "wide_tied"},
          {.model = "wide", .dtype = DType::kBFloat16, .master_weights = MasterWeights::kSplit},
          {.model = "mlp", .optimizer = OptimizerKind::kSgd},
          {.model = "gpt", .adapted = "lora"}};
}

}  // namespace sluice

#endif  // SLUICE_TESTS_PIPELINE_RECOVER_PROCESSES_H_
