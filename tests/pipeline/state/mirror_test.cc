// With a mirror, what a rank keeps of another is that rank's state to the bit, after any number of
// steps; and the run is the one without a mirror.
#include "pipeline/state/mirror.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pipeline/run/rank_threads.h"
#include "pipeline/state/gradient_exchange.h"
#include "pipeline/state/optimizer.h"
#include "tests/pipeline/kept_run.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int64_t kSteps = 3;

std::vector<SmallRun> Runs() {
  std::vector<SmallRun> runs = CatalogueRuns({});
  std::erase_if(
      runs, [](const SmallRun& run) { return MakeRequest(run).timetable.placement.copies() > 1; });
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].model = std::array{"gpt", "tied", "mlp", "rms"}[i % 4];
    if (i % 3 == 1) runs[i].optimizer = OptimizerKind::kSgd;
    if (i % 5 == 2) runs[i].dtype = DType::kBFloat16;
    if (i % 10 == 2) runs[i].master_weights = MasterWeights::kSplit;
  }
  runs = Sample(runs, 3);
  for (const char* adapted : {"lora", "dropout", "freeze"}) {
    runs.push_back({.model = "tied", .ranks = 3, .adapted = adapted});
    runs.push_back(
        {.schedule = "zb-h1", .ranks = 2, .dtype = DType::kBFloat16, .adapted = adapted});
  }
  // A head beside its embedding, on the first rank, which both others are apart from.
  runs.push_back({.model = "wide_tied",
                  .schedule = "zbv",
                  .ranks = 3,
                  .chunks = 2,
                  .dtype = DType::kBFloat16,
                  .master_weights = MasterWeights::kSplit});
  runs.push_back({.model = "llama", .ranks = 3, .recompute = Recompute::kFull, .documents = true});
  runs.push_back({.ranks = 3, .micro_batches = 6, .sum_groups = 3});
  runs.push_back({.schedule = "gpipe", .ranks = 2, .threads = 2});
  return runs;
}

SmallRun Mirrored(SmallRun run) {
  run.mirror = true;
  return run;
}

class MirrorOfARun : public testing::TestWithParam<SmallRun> {};

TEST_P(MirrorOfARun, HasTheBitsOfTheRankThatItMirrors) {
  const RunPlan plan = MakePlan(Mirrored(GetParam()));
  const absl::StatusOr<KeptRun> run = TrainAndKeep(plan, SmallOptions(kSteps));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(MirrorDifferences(run->states), "");
  EXPECT_EQ(run->outcome, OutcomeOnce(GetParam(), kSteps));
}

INSTANTIATE_TEST_SUITE_P(Runs, MirrorOfARun, testing::ValuesIn(Runs()),
                         [](const auto& run) { return run.param.Name(); });

// Layers far larger than a message, on one rank of three.
TEST(Mirror, TakesLargeTensorsPieceByPiece) {
  SmallRun run = Mirrored({.model = "mlp", .ranks = 3});
  RunRequest request = MakeRequest(run);
  request.spec = {.name = "large", .config = MlpConfig{.widths = {20, 2000, 3000, 5, 10}}};
  request.partition = *EvenPartition(request.spec.layer_count(), 3);
  const absl::StatusOr<RunPlan> plan = CompileRun(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const absl::StatusOr<KeptRun> kept = TrainAndKeep(*plan, SmallOptions(2));
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(MirrorDifferences(kept->states), "");
}

TEST(Mirror, IsThereBeforeTheFirstStep) {
  const RunPlan plan = MakePlan({.model = "tied", .ranks = 3, .mirror = true});
  const absl::StatusOr<KeptRun> run = TrainAndKeep(plan, SmallOptions(0));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(MirrorDifferences(run->states), "");
}

// What is left out of the functions that keep a mirror up, step by step.
enum class LeftOut : uint8_t { kNothing, kFilling, kOneStepsGradients };

std::string DifferencesWithout(LeftOut left_out) {
  const RunPlan plan = MakePlan({.model = "tied", .ranks = 3, .mirror = true});
  const HashedData data(plan.request.spec, plan.request.batch.seq);
  const absl::Duration timeout = absl::Seconds(60);
  std::vector<std::unique_ptr<RankState>> states(3);
  InProcessGroup group(plan.ranks(), EdgeCapacity(plan));
  const absl::Status status =
      RunRanks(group, plan.ranks(), {.pin = false}, [&](int rank, Communicator& world) {
        RankState& state = *(states[static_cast<size_t>(rank)] = *RankState::Create(plan, rank));
        state.Initialize(1);
        state.Pack();
        absl::Status done = absl::OkStatus();
        if (left_out != LeftOut::kFilling) done = FillMirror(state, world, timeout);
        Executor executor(&state, state.train_program(), state.layout().train, &world, &data);
        for (int64_t step = 1; step <= kSteps && done.ok(); ++step) {
          Pass pass;
          pass.first_micro_batch = (step - 1) * plan.global_micro_batches();
          pass.timeout = timeout;
          done = executor.Run(pass);
          if (done.ok()) done = ExchangeTiedGradients(state, world, timeout);
          if (done.ok() && !(left_out == LeftOut::kOneStepsGradients && step == 2))
            done = MirrorGradients(state, world, timeout);
          if (done.ok()) done = UpdateWeights(state, {}, 0.01, 0.5, step, nullptr, timeout);
        }
        return done;
      });
  EXPECT_TRUE(status.ok()) << status;
  return MirrorDifferences(states);
}

TEST(Mirror, DiffersWhereAnExchangeIsLeftOut) {
  EXPECT_EQ(DifferencesWithout(LeftOut::kNothing), "");
  // Moments begin as zeros, which need not be brought; gradients change them and the weights.
  for (const auto& [left_out, kinds] :
       {std::pair{LeftOut::kFilling, std::vector{0}},
        std::pair{LeftOut::kOneStepsGradients, std::vector{0, 1, 2}}}) {
    const std::string differences = DifferencesWithout(left_out);
    for (const char* tensor :
         {"rank 0's transformer.wte.weight", "rank 1's transformer.h.8.attn.c_attn.weight",
          "rank 2's lm_head.weight"}) {
      for (const int kind : kinds) {
        EXPECT_TRUE(absl::StrContains(differences, absl::StrCat(tensor, " (kind ", kind, ")")))
            << static_cast<int>(left_out) << ": " << tensor << ", kind " << kind;
      }
    }
  }
}

class ResumedMirror : public testing::TestWithParam<bool> {
 protected:
  void TearDown() override { fs::remove_all(directory_); }
  const fs::path directory_ =
      fs::path(testing::TempDir()) / (GetParam() ? "mirror_then" : "plain_then");
};

// A checkpoint says nothing of mirrors: one can be added, and is filled from what was loaded.
TEST_P(ResumedMirror, GoesOnFromWhatWasLoaded) {
  const SmallRun plain{.model = "tied",
                       .ranks = 3,
                       .dtype = DType::kBFloat16,
                       .master_weights = MasterWeights::kSplit};
  TrainOptions first = SmallOptions(2);
  first.saving.directory = directory_.string();
  const absl::StatusOr<Outcome> stopped =
      Train(MakePlan(GetParam() ? Mirrored(plain) : plain), first);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  TrainOptions rest = SmallOptions(4);
  rest.saving.resume = directory_.string();
  const RunPlan plan = MakePlan(Mirrored(plain));
  const absl::StatusOr<KeptRun> resumed = TrainAndKeep(plan, rest);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(MirrorDifferences(resumed->states), "");
  EXPECT_EQ(resumed->outcome.losses.size(), 2u);
  EXPECT_EQ(resumed->outcome.weights_hash, OutcomeOnce(plain, 4).weights_hash);
}

INSTANTIATE_TEST_SUITE_P(Before, ResumedMirror, testing::Bool(), [](const auto& run) {
  return run.param ? "WithAMirror" : "WithoutAMirror";
});

// Replicas hold each other's state as it is.
TEST(Mirror, IsNoneWhereReplicasHoldTheSame) {
  const SmallRun run{.model = "wide", .ranks = 2, .replicas = 2};
  const RunPlan plain = MakePlan(run);
  const RunPlan plan = MakePlan(Mirrored(run));
  for (size_t rank = 0; rank < plan.arenas.size(); ++rank) {
    EXPECT_EQ(plan.arenas[rank].memory.mirror, 0);
    EXPECT_EQ(plan.arenas[rank].memory.total, plain.arenas[rank].memory.total);
  }
  const absl::StatusOr<Outcome> outcome = Train(plan, SmallOptions(kSteps));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(*outcome, OutcomeOnce(run, kSteps));
}

TEST(Mirror, OfWhatIsNotMirroredThereIsNothing) {
  const RunPlan plan = MakePlan({.ranks = 2, .mirror = true});
  const absl::StatusOr<std::unique_ptr<RankState>> state = RankState::Create(plan, 0);
  ASSERT_TRUE(state.ok()) << state.status();
  const int own = (*state)->parameters().front().global_index;
  const int mirrored = (*state)->mirrored().front().global_index;
  EXPECT_EQ(MirroredTensor(**state, own, StateKind::kWeight).data, nullptr);
  EXPECT_NE(MirroredTensor(**state, mirrored, StateKind::kWeight).data, nullptr);
}

TEST(Mirror, IsRefusedWhereItCannotBe) {
  struct Refusal {
    SmallRun run;
    const char* why;
  };
  for (const Refusal& refusal : std::vector<Refusal>{
           {{.ranks = 1}, "there is one rank, and no other that could keep its state"},
           {{.ranks = 1}, "leave it out (--mirror=false where a run.toml has it)"},
           {{.model = "wide", .replicas = 2, .zero = 1}, "with ZeRO 1 each replica has a part"},
           {{.model = "wide", .sum_groups = 8, .replicas = 2, .zero = 2}, "with ZeRO 2"},
           {{.schedule = "chimera", .chunks = 2}, "schedule 'chimera' has two copies"},
           {{.stage_members = {2, 1}}, "the ranks that share a stage"},
           {{.schedule = "pipedream"}, "schedule 'pipedream' changes the weights without a flush"},
           {{.schedule = "pipedream-2bw"}, "without a flush"}}) {
    ASSERT_TRUE(CompileRun(MakeRequest(refusal.run)).ok()) << refusal.run.Name();
    const absl::Status refused = CompileRun(MakeRequest(Mirrored(refusal.run))).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refusal.run.Name();
    EXPECT_THAT(std::string(refused.message()), HasSubstr("--mirror: "));
    EXPECT_THAT(std::string(refused.message()), HasSubstr(refusal.why));
  }
}

}  // namespace
}  // namespace sluice
