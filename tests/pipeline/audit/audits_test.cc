// Ranks that audit each other: a run has the bits that it has without, and a rank whose hardware
// computes wrong is named soon.
#include "pipeline/audit/audits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/where.h"
#include "models/failpoints/failpoints.h"
#include "pipeline/compile/memory/work_memory.h"
#include "tests/pipeline/small_run.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

SmallRun Audited(SmallRun run, int every = 1) {
  run.audit_every = every;
  return run;
}

std::vector<SmallRun> Runs() {
  std::vector<SmallRun> runs = CatalogueRuns({});
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].model = std::array{"gpt", "tied", "mlp", "rms"}[i % 4];
    if (i % 3 == 1) runs[i].optimizer = OptimizerKind::kSgd;
  }
  for (const char* adapted : {"lora", "dropout", "freeze"}) {
    runs.push_back({.model = "tied", .ranks = 3, .adapted = adapted});
    runs.push_back(
        {.schedule = "zb-h1", .ranks = 2, .dtype = DType::kBFloat16, .adapted = adapted});
  }
  runs.push_back({.model = "llama", .ranks = 3, .recompute = Recompute::kFull, .documents = true});
  runs.push_back({.ranks = 2, .recompute = Recompute::kSelective, .recompute_ahead = true});
  runs.push_back({.ranks = 3, .micro_batches = 6, .sum_groups = 3});
  runs.push_back({.ranks = 3, .mirror = true});
  runs.push_back({.schedule = "gpipe", .ranks = 2, .threads = 2});
  runs.push_back({.model = "wide", .ranks = 2, .replicas = 2});
  runs.push_back({.model = "wide", .ranks = 1, .replicas = 3});
  runs.push_back({.model = "wide_tied", .ranks = 2, .replicas = 2, .zero = 1});
  runs.push_back({.model = "wide", .ranks = 2, .sum_groups = 8, .replicas = 2, .zero = 2});
  runs.push_back({.ranks = 2, .micro_batches = 6, .stage_members = {3, 1}});
  runs.push_back(
      {.model = "wide", .micro_batches = 6, .sum_groups = 3, .zero = 1, .stage_members = {1, 3}});
  return runs;
}

class AuditsOfARun : public testing::TestWithParam<SmallRun> {};

// Enough steps for every stage of a rank to have its turn, and for a second micro-batch.
TEST_P(AuditsOfARun, PassAndLeaveTheBitsAlone) {
  constexpr int64_t kSteps = 6;
  const absl::StatusOr<Outcome> outcome =
      Train(MakePlan(Audited(GetParam())), SmallOptions(kSteps));
  ASSERT_TRUE(outcome.ok()) << DescribeError(outcome.status());
  EXPECT_EQ(*outcome, OutcomeOnce(GetParam(), kSteps));
}

INSTANTIATE_TEST_SUITE_P(Runs, AuditsOfARun, testing::ValuesIn(Runs()),
                         [](const auto& run) { return run.param.Name(); });

TEST(AuditTurns, GoThroughAllStagesAndMicroBatches) {
  const RunPlan plan = MakePlan(
      {.schedule = "interleaved", .ranks = 2, .chunks = 3, .micro_batches = 4, .audit_every = 5});
  for (int rank = 0; rank < 2; ++rank) {
    std::set<std::pair<int, int>> seen;
    for (int64_t step = 1; step <= 5 * 3 * 4; ++step) {
      EXPECT_EQ(plan.audits(step), step % 5 == 0);
      if (!plan.audits(step)) continue;
      const AuditTurn turn = plan.TurnOf(rank, step);
      EXPECT_EQ(plan.deal.first_rank(turn.stage), rank);
      seen.emplace(turn.stage, turn.micro_batch);
    }
    EXPECT_EQ(seen.size(), 3u * 4u);
  }
}

// What a rank is asked about it has computed.
TEST(AuditTurns, AreOfMicroBatchesThatTheRankHas) {
  for (const SmallRun& run : {SmallRun{.schedule = "chimera", .ranks = 2, .chunks = 2},
                              SmallRun{.micro_batches = 6, .stage_members = {3, 1}}}) {
    const RunPlan plan = MakePlan(Audited(run));
    for (int rank = 0; rank < plan.world_size(); ++rank) {
      std::set<std::pair<int, int>> has, seen;
      const RankProgram& program = plan.train[static_cast<size_t>(rank)];
      for (const Action& action : program.actions) has.emplace(action.stage, action.micro_batch);
      for (int64_t step = 1; step <= 24; ++step) {
        const AuditTurn turn = plan.TurnOf(rank, step);
        seen.emplace(turn.stage, turn.micro_batch);
      }
      EXPECT_EQ(seen, has) << run.Name() << ", rank " << rank;
    }
  }
}

TEST(AuditTurns, EveryRankHasOneAuditorAndIsIt) {
  for (const SmallRun& run :
       {SmallRun{.ranks = 2}, SmallRun{.ranks = 4}, SmallRun{.model = "wide", .replicas = 3}}) {
    const RunPlan plan = MakePlan(Audited(run));
    std::set<int> auditors;
    for (int rank = 0; rank < plan.world_size(); ++rank) {
      const int auditor = plan.AuditorOf(rank);
      EXPECT_NE(auditor, rank);
      EXPECT_EQ(plan.AuditedRank(auditor), rank);
      if (run.replicas > 1) {
        EXPECT_EQ(plan.pipeline_rank(auditor), plan.pipeline_rank(rank));
      }
      auditors.insert(auditor);
    }
    EXPECT_EQ(auditors.size(), static_cast<size_t>(plan.world_size()));
  }
}

// The arena has what the plan says, and audits have a part in it.
TEST(AuditMemory, IsPartOfThePlan) {
  const SmallRun run{.model = "wide", .ranks = 3, .micro_batches = 6};
  const RunPlan plain = MakePlan(run);
  const RunPlan plan = MakePlan(Audited(run));
  for (int rank = 0; rank < plan.world_size(); ++rank) {
    const RankMemory& memory = plan.arenas[static_cast<size_t>(rank)].memory;
    const RankMemory& without = plain.arenas[static_cast<size_t>(rank)].memory;
    EXPECT_GT(memory.audit, 0);
    EXPECT_EQ(memory.activations, std::max(without.activations, AuditBytes(plan, rank)));
    EXPECT_EQ(memory.total - memory.activations,
              without.total - without.activations + memory.audit);
  }
}

TEST(Audits, AreRefusedWhereTheyCannotBe) {
  struct Refusal {
    SmallRun run;
    const char* why;
  };
  for (const Refusal& refusal : std::vector<Refusal>{
           {{.ranks = 1}, "there is one rank, and no other that could compute its work again"},
           {{.schedule = "pipedream"},
            "schedule 'pipedream' changes the weights without a flush"}}) {
    ASSERT_TRUE(CompileRun(MakeRequest(refusal.run)).ok()) << refusal.run.Name();
    const absl::Status refused = CompileRun(MakeRequest(Audited(refusal.run))).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refusal.run.Name();
    EXPECT_THAT(std::string(refused.message()), HasSubstr("--audit 1: "));
    EXPECT_THAT(std::string(refused.message()), HasSubstr(refusal.why));
  }
  EXPECT_EQ(CompileRun(MakeRequest(Audited({}, -1))).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// A seeded fault of one rank's hardware.
struct Flip {
  SmallRun run;
  int rank = 0;
  const char* what = "";  // as in bit_flip.h
  FaultKind kind = FaultKind::kVanish;
  // Of all times that the rank comes by the failpoint.
  int64_t hit = 1;
};

class FlippedBit : public testing::Test {
 protected:
  void SetUp() override {
    if (!kHasFailpoints) GTEST_SKIP() << "built without failpoints";
  }
  void TearDown() override {
#ifdef SLUICE_FAILPOINTS
    ArmFault(std::nullopt);
#endif
  }

  static void Arm(const Flip& flip) {
#ifdef SLUICE_FAILPOINTS
    ArmFault(Fault{.point = absl::StrCat("rank", flip.rank, "-", flip.what, ".flip"),
                   .hit = flip.hit,
                   .kind = flip.kind});
#endif
  }

  // How often a rank comes by the failpoint in `steps` steps.
  static int64_t HitsIn(const Flip& flip, int64_t steps) {
#ifdef SLUICE_FAILPOINTS
    ArmFault(std::nullopt);
    EXPECT_TRUE(Train(MakePlan(flip.run), SmallOptions(steps)).ok());
    return FailpointHits()[absl::StrCat("rank", flip.rank, "-", flip.what, ".flip")];
#else
    return 0;
#endif
  }

  // Trains with the fault from the first time on that the rank computes in step `first`.
  static absl::Status TrainWith(Flip flip, int64_t first) {
    flip.hit = HitsIn(flip, first - 1) + 1;
    Arm(flip);
    return Train(MakePlan(flip.run), SmallOptions(first + 10)).status();
  }
};

// One flipped bit in a whole run, where the audit looks.
TEST_F(FlippedBit, OfOneMomentIsFoundWhereItIsAudited) {
  for (const char* what : {"forward", "gradient", "memory"}) {
    // With two ranks there is no third to ask; but who lied does not say the same again.
    const Flip flip{.run = Audited({.ranks = 2, .micro_batches = 1}),
                    .rank = 1,
                    .what = what,
                    .kind = FaultKind::kFail};
    const absl::Status status = TrainWith(flip, 3);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << what << DescribeError(status);
    EXPECT_EQ(WhereOf(status).rank, 1) << what << DescribeError(status);
    EXPECT_EQ(WhereOf(status).step, 3) << what << DescribeError(status);
  }
}

// Memory that loses a bit in a step that is not audited is found all the same.
TEST_F(FlippedBit, OfMemoryIsFoundInEveryStep) {
  const Flip flip{
      .run = Audited({.ranks = 2}, 100), .rank = 1, .what = "memory", .kind = FaultKind::kFail};
  const absl::Status status = TrainWith(flip, 3);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << DescribeError(status);
  EXPECT_EQ(WhereOf(status).rank, 1);
  EXPECT_EQ(WhereOf(status).step, 3);
  EXPECT_THAT(DescribeError(status),
              AllOf(HasSubstr("audit of step 3: the memory of rank 1 does not keep"),
                    HasSubstr("transformer.h.8.")));
}

// Two ranks that both repeat what they say: nobody can tell, and nobody says that he can.
TEST_F(FlippedBit, OfTwoRanksThatRepeatThemselvesIsOneOfTheTwo) {
  const Flip flip{.run = Audited({.ranks = 2}), .rank = 0, .what = "forward"};
  const absl::Status status = TrainWith(flip, 3);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << DescribeError(status);
  EXPECT_EQ(WhereOf(status).rank, std::nullopt);
  EXPECT_THAT(DescribeError(status),
              AllOf(HasSubstr("audit of step 3: the hardware of rank 0 or rank 1 computes wrong"),
                    HasSubstr("there is no third rank to ask")));
}

TEST_F(FlippedBit, OfAReplicaIsFound) {
  for (const int zero : {0, 1, 2}) {
    for (const int rank : {1, 2}) {
      const Flip flip{.run = Audited({.model = "wide",
                                      .ranks = 2,
                                      .sum_groups = zero == 2 ? 8 : 0,
                                      .replicas = 2,
                                      .zero = zero}),
                      .rank = rank,
                      .what = "gradient"};
      const absl::Status status = TrainWith(flip, 2);
      EXPECT_EQ(WhereOf(status).rank, rank) << DescribeError(status);
      EXPECT_EQ(WhereOf(status).step, 2) << DescribeError(status);
    }
  }
}

// Replicas make the same updates, and so do the members of a stage, and a mirror; with three of
// them it is clear who differs. A rank comes by that failpoint once before its first step, so what
// TrainWith takes for step 2 is the update that ends it.
TEST_F(FlippedBit, OfAnUpdateIsFoundWhereAnotherMakesItToo) {
  const Flip three{.run = Audited({.model = "wide", .ranks = 2, .replicas = 3}),
                   .rank = 3,
                   .what = "update",
                   .kind = FaultKind::kFail};
  const absl::Status known = TrainWith(three, 2);
  EXPECT_EQ(WhereOf(known).rank, 3) << DescribeError(known);
  EXPECT_EQ(WhereOf(known).stage, 1) << DescribeError(known);
  EXPECT_EQ(WhereOf(known).step, 3) << DescribeError(known);
  EXPECT_THAT(DescribeError(known),
              HasSubstr("rank 3 and rank 1, which make the same updates, have different bits of "
                        "the weights of stage 1, and most ranks that make them agree with rank 1"));
  const Flip two{.run = Audited({.model = "wide", .ranks = 2, .replicas = 2}),
                 .rank = 3,
                 .what = "update",
                 .kind = FaultKind::kFail};
  EXPECT_THAT(DescribeError(TrainWith(two, 2)),
              AllOf(HasSubstr("audit of step 3: the hardware of rank "), HasSubstr(" or rank "),
                    HasSubstr("no majority of those that make them agrees")));
  const Flip members{.run = Audited({.micro_batches = 6, .stage_members = {1, 3}}),
                     .rank = 2,
                     .what = "update",
                     .kind = FaultKind::kFail};
  EXPECT_EQ(WhereOf(TrainWith(members, 2)).rank, 2);
  const Flip mirrored{.run = Audited({.ranks = 3, .mirror = true}),
                      .rank = 1,
                      .what = "update",
                      .kind = FaultKind::kFail};
  EXPECT_THAT(DescribeError(TrainWith(mirrored, 2)),
              AllOf(HasSubstr("audit of step 3: the hardware of rank 1 or rank 0 computes wrong"),
                    HasSubstr("no third rank makes these updates")));
}

TEST_F(FlippedBit, OfAMemberOfAStageIsFound) {
  const Flip flip{
      .run = Audited({.micro_batches = 6, .stage_members = {3, 1}}), .rank = 2, .what = "gradient"};
  const absl::Status status = TrainWith(flip, 3);
  EXPECT_EQ(WhereOf(status).rank, 2) << DescribeError(status);
  EXPECT_EQ(WhereOf(status).step, 3) << DescribeError(status);
}

// Of a rank with several stages each has its turn.
TEST_F(FlippedBit, OfARankWithSeveralStagesIsFound) {
  const Flip flip{
      .run = Audited({.schedule = "interleaved", .ranks = 3, .chunks = 2, .micro_batches = 6}),
      .rank = 2,
      .what = "input"};
  const absl::Status status = TrainWith(flip, 3);
  EXPECT_EQ(WhereOf(status).rank, 2) << DescribeError(status);
  EXPECT_LE(WhereOf(status).step.value_or(100), 4) << DescribeError(status);
}

// What was saved since the last audit that was passed may be wrong, and is not what the run is to
// go on from.
TEST_F(FlippedBit, NothingIsSavedAfterItAndAnOlderCheckpointIsAdvised) {
  const fs::path directory = fs::path(testing::TempDir()) / "audited";
  fs::remove_all(directory);
  Flip flip{.run = Audited({.ranks = 3}, 3), .rank = 1, .what = "forward"};
  flip.hit = HitsIn(flip, 6) + 1;  // in step 7, to be found in step 9
  Arm(flip);
  TrainOptions options = SmallOptions(20);
  options.saving.directory = directory.string();
  options.saving.every = 1;
  options.saving.keep = 100;
  const absl::Status status = Train(MakePlan(flip.run), options).status();
  EXPECT_EQ(WhereOf(status).rank, 1) << DescribeError(status);
  EXPECT_EQ(WhereOf(status).step, 9) << DescribeError(status);
  // Step 6 was audited before its update.
  EXPECT_THAT(DescribeError(status), HasSubstr("the newest good checkpoint is "));
  EXPECT_THAT(DescribeError(status), HasSubstr("step-00000005: go on from it"));
  EXPECT_TRUE(fs::exists(directory / "step-00000008"));
  EXPECT_FALSE(fs::exists(directory / "step-00000009"));
  fs::remove_all(directory);
}

TEST_F(FlippedBit, IsFoundAndItsRankNamed) {
  for (const int ranks : {3, 4}) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (const char* what : {"forward", "input", "gradient", "memory"}) {
        const Flip flip{.run = Audited({.ranks = ranks}, 2), .rank = rank, .what = what};
        constexpr int64_t kFirst = 4;
        const absl::Status status = TrainWith(flip, kFirst);
        const std::string name =
            absl::StrCat(ranks, " ranks, ", what, " of rank ", rank, ": ", DescribeError(status));
        EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << name;
        const Where where = WhereOf(status);
        EXPECT_EQ(where.rank, rank) << name;
        EXPECT_EQ(where.moment, Where::Moment::kAudit) << name;
        EXPECT_GE(where.step.value_or(0), kFirst) << name;
        EXPECT_LE(where.step.value_or(0), kFirst + 1) << name;
      }
    }
  }
}

}  // namespace
}  // namespace sluice
