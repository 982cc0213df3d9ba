// Ranks that audit each other: a run has the bits that it has without, and the memory that its plan
// says.
#include "pipeline/audit/audits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <utility>

#include "comm/where.h"
#include "pipeline/compile/memory/work_memory.h"
#include "tests/pipeline/small_run.h"

namespace sluice {
namespace {

using testing::HasSubstr;

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
    for (int64_t step = 1; step <= 60; ++step) {
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

}  // namespace
}  // namespace sluice
