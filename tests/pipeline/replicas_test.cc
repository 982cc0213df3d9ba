// Replicas of a pipeline, whatever they divide among themselves, give the bits of one pipeline that
// has all their micro-batches and sums gradients in the same number of groups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/where.h"
#include "tests/pipeline/haunted_layer.h"
#include "tests/pipeline/small_run.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int64_t kSteps = 3;

// One rank, one stage, one replica.
SmallRun Baseline(SmallRun run) {
  run.sum_groups = MakePlan(run).sum_groups();
  run.micro_batches *= run.replicas;
  run.replicas = run.ranks = run.chunks = 1;
  run.zero = 0;
  run.schedule = "gpipe";
  run.recompute = Recompute::kNone;
  run.partition_seed = 0;
  return run;
}

const Outcome& BaselineOutcome(const SmallRun& run) { return OutcomeOnce(Baseline(run), kSteps); }

std::vector<SmallRun> Runs() {
  struct Cut {
    const char* schedule;
    int ranks;
    int chunks;
  };
  const Cut cuts[] = {{"gpipe", 1, 1}, {"1f1b", 2, 1},        {"1f1b", 3, 1},
                      {"zb-h1", 2, 1}, {"interleaved", 2, 2}, {"zbv", 2, 2}};
  std::vector<SmallRun> runs;
  uint64_t seed = 0;
  for (const Cut& cut : cuts) {
    for (int replicas = 1; replicas <= 4; ++replicas) {
      for (int zero = 0; zero <= 2; ++zero) {
        ++seed;
        runs.push_back({.model = seed % 2 == 0 ? "wide" : "wide_tied",
                        .schedule = cut.schedule,
                        .ranks = cut.ranks,
                        .chunks = cut.chunks,
                        .recompute = seed % 5 == 0 ? Recompute::kFull : Recompute::kNone,
                        .dtype = seed % 3 == 0 ? DType::kBFloat16 : DType::kFloat32,
                        .partition_seed = seed % 4 == 0 ? seed : 0,
                        .optimizer = seed % 7 == 0 ? OptimizerKind::kSgd : OptimizerKind::kAdamW,
                        .replicas = replicas,
                        .zero = zero});
      }
    }
  }
  return Sample(runs, 5);  // 6 cuts, 4 numbers of replicas, 3 levels of ZeRO
}

class Replicas : public testing::TestWithParam<SmallRun> {};

TEST_P(Replicas, EqualOnePipeline) {
  absl::StatusOr<Outcome> outcome = Train(MakePlan(GetParam()), SmallOptions(kSteps));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(*outcome, BaselineOutcome(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Cuts, Replicas, testing::ValuesIn(Runs()),
                         [](const auto& run) { return run.param.Name(); });

// The low halves of split weights are divided with the rest of the optimizer's state.
INSTANTIATE_TEST_SUITE_P(Split, Replicas, testing::ValuesIn([] {
                           std::vector<SmallRun> runs;
                           for (int zero = 0; zero <= 2; ++zero) {
                             for (const char* model : {"wide", "wide_tied"}) {
                               runs.push_back({.model = model,
                                               .ranks = zero + 1,
                                               .dtype = DType::kBFloat16,
                                               .master_weights = MasterWeights::kSplit,
                                               .replicas = 3,
                                               .zero = zero});
                             }
                           }
                           runs.push_back({.model = "wide",
                                           .ranks = 2,
                                           .dtype = DType::kBFloat16,
                                           .master_weights = MasterWeights::kSplit,
                                           .replicas = 2,
                                           .zero = 1,
                                           .adapted = "lora"});
                           return runs;
                         }()),
                         [](const auto& run) { return run.param.Name(); });

// Of what is frozen nobody has anything to sum or to divide.
INSTANTIATE_TEST_SUITE_P(
    Adapted, Replicas,
    testing::Values(
        SmallRun{.model = "wide", .ranks = 2, .replicas = 2, .zero = 2, .adapted = "lora"},
        SmallRun{.model = "wide_tied", .ranks = 3, .replicas = 2, .zero = 1, .adapted = "lora"},
        SmallRun{.model = "wide", .ranks = 2, .replicas = 3, .adapted = "freeze"},
        SmallRun{.model = "wide", .ranks = 2, .replicas = 2, .adapted = "dropout"},
        SmallRun{.model = "wide_tied", .ranks = 2, .replicas = 2, .zero = 2, .adapted = "freeze"},
        SmallRun{.model = "wide",
                 .ranks = 2,
                 .sum_groups = 4,
                 .replicas = 2,
                 .zero = 1,
                 .adapted = "freeze"}),
    [](const auto& run) { return run.param.Name(); });

// More groups than replicas: each replica sums several groups, one after the other.
INSTANTIATE_TEST_SUITE_P(
    Groups, Replicas,
    testing::Values(
        SmallRun{.model = "wide", .ranks = 2, .sum_groups = 4, .replicas = 2},
        SmallRun{.model = "wide_tied", .ranks = 3, .sum_groups = 8, .replicas = 2, .zero = 1},
        SmallRun{.model = "wide", .ranks = 2, .sum_groups = 4, .replicas = 2, .zero = 2},
        SmallRun{.model = "wide",
                 .schedule = "zb-h1",
                 .ranks = 2,
                 .sum_groups = 6,
                 .replicas = 3,
                 .zero = 2},
        SmallRun{.model = "mlp", .ranks = 3, .sum_groups = 12, .replicas = 3},
        SmallRun{.model = "tied", .ranks = 4, .sum_groups = 4, .replicas = 4, .zero = 1},
        SmallRun{.model = "llama",
                 .ranks = 2,
                 .sum_groups = 8,
                 .replicas = 2,
                 .zero = 2,
                 .documents = true},
        SmallRun{.model = "gemma",
                 .ranks = 3,
                 .dtype = DType::kBFloat16,
                 .replicas = 3,
                 .zero = 1,
                 .documents = true},
        SmallRun{.model = "mlp", .ranks = 2, .micro_batches = 1, .replicas = 5, .zero = 2}),
    [](const auto& run) { return run.param.Name(); });

TEST(Zero, IsTheSameBitsWhateverIsDivided) {
  std::vector<Outcome> outcomes;
  for (int zero : {0, 1, 2}) {
    absl::StatusOr<Outcome> outcome =
        Train(MakePlan({.model = "wide_tied", .sum_groups = 8, .replicas = 2, .zero = zero}),
              SmallOptions(kSteps));
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    outcomes.push_back(*outcome);
  }
  EXPECT_EQ(outcomes[0], outcomes[1]);
  EXPECT_EQ(outcomes[0], outcomes[2]);
}

// The promise can fail: leaving out a sum over the replicas, doing it twice, or restarting it where
// it should continue changes the outcome.
TEST(Reductions, EveryOneCounts) {
  const SmallRun run{.model = "wide", .ranks = 2, .sum_groups = 4, .replicas = 2};
  const Outcome sound = BaselineOutcome(run);
  const auto is_reduction = [](const Instruction& i) { return i.step == Step::kReduceGradients; };
  for (size_t rank : {0U, 1U}) {
    for (const std::string how : {"dropped", "doubled", "started anew"}) {
      RunPlan plan = MakePlan(run);
      RankProgram& program = plan.train[rank];
      ASSERT_EQ(program.reductions.size(), 2U);  // one per group
      auto last =
          std::find_if(program.instructions.rbegin(), program.instructions.rend(), is_reduction)
              .base() -
          1;
      if (how == "dropped") program.instructions.erase(last);
      if (how == "doubled") program.instructions.insert(last, Instruction(*last));
      if (how == "started anew") program.reductions.back().starts = true;
      absl::StatusOr<Outcome> outcome = Train(plan, SmallOptions(kSteps));
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      EXPECT_NE(outcome->weights_hash, sound.weights_hash) << how << " on rank " << rank;
    }
  }
}

// The sum over all ranks.
int64_t LargestArena(const RunPlan& plan) {
  int64_t largest = 0;
  for (const ArenaLayout& arena : plan.arenas) largest = std::max(largest, arena.memory.total);
  return largest;
}

TEST(Zero, TakesLessMemoryTheMoreIsDivided) {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    for (int replicas : {2, 4}) {
      std::vector<int64_t> bytes;
      for (int zero : {0, 1, 2}) {
        bytes.push_back(LargestArena(MakePlan({.model = "wide",
                                               .schedule = schedule,
                                               .sum_groups = 4 * replicas,
                                               .replicas = replicas,
                                               .zero = zero})));
      }
      EXPECT_LT(bytes[1], bytes[0]) << schedule;
      EXPECT_LT(bytes[2], bytes[1]) << schedule;
    }
  }
}

// Each of K replicas has nearly 1/K of the optimizer's state, and together they have all of it.
TEST(Zero, DividesTheOptimizersState) {
  const RunPlan whole = MakePlan({.model = "wide", .replicas = 4});
  const RunPlan divided = MakePlan({.model = "wide", .replicas = 4, .zero = 1});
  for (int rank = 0; rank < whole.ranks(); ++rank) {
    int64_t all = 0;
    int64_t largest = 0;
    for (int replica = 0; replica < 4; ++replica) {
      const auto at = static_cast<size_t>(replica) * static_cast<size_t>(whole.ranks()) +
                      static_cast<size_t>(rank);
      all += divided.arenas[at].memory.optimizer;
      largest = std::max(largest, divided.arenas[at].memory.optimizer);
    }
    const int64_t undivided = whole.arenas[static_cast<size_t>(rank)].memory.optimizer;
    EXPECT_GE(all, undivided);
    EXPECT_LT(static_cast<double>(all), 1.02 * static_cast<double>(undivided));
    EXPECT_LT(static_cast<double>(largest), 1.1 / 4 * static_cast<double>(undivided));
  }
}

TEST(CutParameters, CoversEveryElementAtBlocks) {
  const RunPlan plan = MakePlan({.model = "wide_tied", .ranks = 3, .replicas = 3, .zero = 1});
  const std::vector<const ParameterDecl*> parameters = CanonicalParameters(plan);
  ASSERT_EQ(plan.shards.size(), parameters.size());
  std::map<std::string, std::vector<int64_t>> bounds_of;
  for (size_t p = 0; p < parameters.size(); ++p) {
    const std::vector<int64_t>& bounds = plan.shards[p];
    const int64_t elements = ElementCount(parameters[p]->shape);
    ASSERT_EQ(bounds.size(), 4U);
    EXPECT_EQ(bounds.front(), 0);
    EXPECT_EQ(bounds.back(), elements);
    EXPECT_TRUE(std::is_sorted(bounds.begin(), bounds.end()));
    for (int64_t bound : bounds)
      EXPECT_TRUE(bound % kShardBlock == 0 || bound == elements) << bound;
    bounds_of[parameters[p]->name] = bounds;
    if (!parameters[p]->tied_to.empty()) {
      EXPECT_EQ(bounds, bounds_of.at(parameters[p]->tied_to));
    }
  }
}

// Every micro-batch of a step belongs to exactly one replica, so each sample is used once per
// epoch.
TEST(GlobalMicroBatch, NumbersEveryMicroBatchOnce) {
  for (int groups : {3, 6, 12}) {
    const RunPlan plan = MakePlan({.sum_groups = groups, .replicas = 3});
    std::set<int> numbers;
    for (int replica = 0; replica < 3; ++replica) {
      for (int local = 0; local < 4; ++local) numbers.insert(plan.GlobalMicroBatch(replica, local));
    }
    EXPECT_EQ(numbers.size(), 12U);
    EXPECT_EQ(*numbers.begin(), 0);
    EXPECT_EQ(*numbers.rbegin(), 11);
  }
}

std::string Contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  EXPECT_TRUE(in) << file;
  return {std::istreambuf_iterator<char>(in), {}};
}

class ReplicaCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    directory_ = fs::path(testing::TempDir()) / absl::StrCat(test->test_suite_name(), test->name());
    fs::remove_all(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  // Saves `run` after two steps below `name`.
  void Save(const SmallRun& run, const std::string& name) {
    TrainOptions options = SmallOptions(2);
    options.saving.directory = (directory_ / name).string();
    absl::StatusOr<Outcome> saved = Train(MakePlan(run), options);
    ASSERT_TRUE(saved.ok()) << saved.status();
  }

  fs::path directory_;
};

// Twelve micro-batches in six groups, in several ways.
std::vector<SmallRun> SameRuns() {
  return {
      {.model = "wide_tied", .schedule = "gpipe", .ranks = 1, .micro_batches = 12, .sum_groups = 6},
      {.model = "wide_tied", .ranks = 2, .micro_batches = 6, .sum_groups = 6, .replicas = 2},
      {.model = "wide_tied",
       .ranks = 3,
       .micro_batches = 6,
       .partition_seed = 3,
       .sum_groups = 6,
       .replicas = 2,
       .zero = 2},
      {.model = "wide_tied",
       .schedule = "zb-h1",
       .ranks = 2,
       .micro_batches = 4,
       .sum_groups = 6,
       .replicas = 3,
       .zero = 1}};
}

TEST_F(ReplicaCheckpoint, IsTheOneOfOnePipeline) {
  const std::vector<SmallRun> runs = SameRuns();
  for (size_t i = 0; i < runs.size(); ++i) {
    Save(runs[i], absl::StrCat(i));
    for (const char* file :
         {"model.safetensors", "optimizer.safetensors", "config.json", "state.json"}) {
      EXPECT_EQ(Contents(directory_ / absl::StrCat(i) / "latest" / file),
                Contents(directory_ / "0" / "latest" / file))
          << runs[i].Name() << " " << file;
    }
  }
}

// Because another order of summation would give other bits.
TEST_F(ReplicaCheckpoint, IsNotResumedWithOtherGroups) {
  Save({.model = "wide", .replicas = 2}, "out");
  TrainOptions rest = SmallOptions(4);
  rest.saving.resume = (directory_ / "out").string();
  const SmallRun alone{.model = "wide", .ranks = 3, .micro_batches = 8};
  const absl::Status refused = Train(MakePlan(alone), rest).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--sum-groups (saved 2, given 1)"));
}

TEST_F(ReplicaCheckpoint, IsResumedByOtherReplicas) {
  const std::vector<SmallRun> runs = SameRuns();
  absl::StatusOr<Outcome> whole = Train(MakePlan(runs[0]), SmallOptions(4));
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (size_t before = 0; before < runs.size(); ++before) {
    Save(runs[before], absl::StrCat(before));
    for (const SmallRun& after : runs) {
      TrainOptions rest = SmallOptions(4);
      rest.saving.resume = (directory_ / absl::StrCat(before)).string();
      absl::StatusOr<Outcome> resumed = Train(MakePlan(after), rest);
      ASSERT_TRUE(resumed.ok()) << resumed.status();
      EXPECT_EQ(resumed->weights_hash, whole->weights_hash)
          << runs[before].Name() << ", then " << after.Name();
      EXPECT_EQ(resumed->losses,
                std::vector<std::string>(whole->losses.begin() + 2, whole->losses.end()));
    }
  }
}

std::string ErrorOf(const SmallRun& run) {
  const absl::Status status = CompileRun(MakeRequest(run)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(BadReplicas, AreRefusedWithAReason) {
  EXPECT_THAT(ErrorOf({.sum_groups = 3, .replicas = 2}),
              HasSubstr("in 3 groups by 2 replicas with 4 micro-batches each"));
  EXPECT_THAT(ErrorOf({.sum_groups = 6, .replicas = 2}), HasSubstr("divides all 8 micro-batches"));
  EXPECT_THAT(ErrorOf({.replicas = 0}), HasSubstr("0 replicas; expected 1 to"));
  EXPECT_THAT(ErrorOf({.replicas = 2, .zero = 3}), HasSubstr("expected 0, 1 or 2"));
  EXPECT_THAT(ErrorOf({.sum_groups = 2, .replicas = 2, .zero = 2}),
              HasSubstr("ZeRO 2 would save nothing with 2 groups"));
  EXPECT_THAT(ErrorOf({.schedule = "chimera", .chunks = 2, .replicas = 2}),
              HasSubstr("has two copies of the model already"));
  EXPECT_THAT(ErrorOf({.schedule = "pipedream-2bw", .replicas = 2}),
              HasSubstr("without a flush, at which ranks could agree"));
}

// A copy without a micro-batch would have no gradients of its own to give to the other one.
TEST(TwoCopies, HaveAMicroBatchEach) {
  const SmallRun run{.schedule = "chimera", .chunks = 2, .micro_batches = 1};
  EXPECT_THAT(ErrorOf(run), HasSubstr("schedule 'chimera' has 2 copies of the model and needs at "
                                      "least 2 micro-batches per step, not 1"));
  MakePlan({.schedule = "chimera", .chunks = 2, .micro_batches = 2});
}

// Nothing is divided where there is only one replica.
TEST(Zero, IsNothingForOneReplica) {
  const RunPlan plain = MakePlan({.model = "wide"});
  for (int zero : {1, 2}) {
    const RunPlan plan = MakePlan({.model = "wide", .zero = zero});
    EXPECT_EQ(plan.sum_groups(), 1);
    EXPECT_EQ(LargestArena(plan), LargestArena(plain));
  }
}

// The rank that waits for a replica says so, and where.
TEST(ReplicaFailure, IsATimeOutThatNamesTheWaiter) {
  const RunRequest request = MakeRequest({.model = "wide", .ranks = 1, .replicas = 2});
  const HashedData data(request.spec, request.batch.seq);
  std::atomic<int> made{0};  // first for the plan, then for each of the two replicas
  TrainOptions options = SmallOptions(1);
  options.watching.timeout = absl::Seconds(1);  // no healthy rank takes so long
  const absl::Status status = TrainWithHang(
      request, [&made](int index) { return index == 1 && made++ == 2; }, data, options);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(DescribeError(status),
              testing::AllOf(HasSubstr("(replica "), HasSubstr("stage 0, micro-batch 3"),
                             HasSubstr("REDUCE_GRAD"), HasSubstr("did not arrive in time")));
}

TEST(ReplicaFailure, IsTracedToItsLayer) {
  TrainOptions options = SmallOptions(50);
  options.training.optimizer.lr = 1e30;
  options.training.optimizer.clip = 0;
  for (int zero : {0, 1, 2}) {
    const absl::Status status =
        Train(MakePlan({.model = "wide", .replicas = 2, .zero = zero}), options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(HasSubstr("layer "), HasSubstr("micro-batch ")));
  }
}

}  // namespace
}  // namespace sluice
