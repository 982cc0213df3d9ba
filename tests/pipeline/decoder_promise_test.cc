// Every family of decoders keeps its bits for any schedule, number of ranks and chunks, partition,
// recomputation, threads, replicas and resumption; and takes the memory that its plan says.
#include <gtest/gtest.h>

#include <memory>

#include "models/kernels/kernel_threads.h"
#include "pipeline/state/rank_state.h"
#include "tests/models/data/files.h"
#include "tests/pipeline/decoder_runs.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

constexpr int64_t kSteps = 2;

// One rank, one stage, one replica, nothing recomputed.
SmallRun Baseline(SmallRun run) {
  run.sum_groups = MakePlan(run).sum_groups();
  run.micro_batches *= run.replicas;
  run.replicas = run.ranks = run.chunks = 1;
  run.zero = 0;
  run.stage_members = {};
  run.schedule = "gpipe";
  run.recompute = Recompute::kNone;
  run.recompute_ahead = false;
  run.threads = 1;
  run.partition_seed = 0;
  return run;
}

// Stops after the first step and goes on; the losses and norms of both parts.
absl::StatusOr<Outcome> TrainInTwoParts(const RunPlan& plan) {
  const TempFolder folder;
  TrainOptions options = SmallOptions(1);
  options.saving.directory = folder / "run";
  const absl::StatusOr<Outcome> first = Train(plan, options);
  if (!first.ok()) return first.status();
  TrainOptions rest = SmallOptions(kSteps);
  rest.saving.resume = folder / "run";
  absl::StatusOr<Outcome> outcome = Train(plan, rest);
  if (!outcome.ok()) return outcome;
  outcome->losses.insert(outcome->losses.begin(), first->losses.begin(), first->losses.end());
  outcome->norms.insert(outcome->norms.begin(), first->norms.begin(), first->norms.end());
  return outcome;
}

class DecoderPromise : public testing::TestWithParam<DecoderRun> {};

TEST_P(DecoderPromise, EqualsOneStageInThePlannedMemory) {
  const RunPlan plan = MakePlan(GetParam().run);
  for (int rank = 0; rank < plan.world_size(); ++rank) {
    const KernelThreads threads(plan.request.threads_per_stage);
    const absl::StatusOr<std::unique_ptr<RankState>> state = RankState::Create(plan, rank);
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ((*state)->arena().bytes(), plan.arenas[static_cast<size_t>(rank)].memory.total);
  }
  const absl::StatusOr<Outcome> outcome =
      GetParam().resumed ? TrainInTwoParts(plan) : Train(plan, SmallOptions(kSteps));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(*outcome, OutcomeOnce(Baseline(GetParam().run), kSteps));
}

INSTANTIATE_TEST_SUITE_P(Random, DecoderPromise,
                         testing::ValuesIn(Sample(RandomDecoderRuns(240), 7)),
                         [](const auto& run) { return run.param.Name(); });

}  // namespace
}  // namespace sluice
