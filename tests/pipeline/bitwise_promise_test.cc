// Losses, gradient norms, weights and validation loss are the same bits for every schedule, number
// of ranks and chunks, partition and recomputation policy; and a run takes the memory that was
// predicted.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "tests/models/twins/model_runner.h"
#include "tests/pipeline/small_run.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

constexpr int64_t kSteps = 3;

// Copies of the model that the run's schedule keeps; each sums the gradients of its micro-batches.
int Copies(const SmallRun& run) { return MakeRequest(run).timetable.placement.copies(); }

// One rank, one stage, one micro-batch after the other, nothing recomputed.
SmallRun Baseline(SmallRun run) {
  run.sum_groups = std::max(run.sum_groups, Copies(run));
  run.schedule = "gpipe";
  run.ranks = run.chunks = 1;
  run.recompute = Recompute::kNone;
  run.recompute_ahead = false;
  run.partition_seed = 0;
  return run;
}

const Outcome& BaselineOutcome(const SmallRun& run) { return OutcomeOnce(Baseline(run), kSteps); }

std::vector<SmallRun> Runs() {
  struct Cut {
    const char* schedule;
    int chunks;
  };
  const Cut cuts[] = {
      {"gpipe", 1}, {"1f1b", 1}, {"interleaved", 2}, {"interleaved", 3}, {"zb-h1", 1}};
  std::vector<SmallRun> runs;
  uint64_t seed = 0;
  for (const Cut& cut : cuts) {
    for (int ranks = 1; ranks <= 6; ++ranks) {
      for (Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
          SmallRun run{.schedule = cut.schedule, .ranks = ranks, .chunks = cut.chunks};
          run.recompute = recompute;
          run.dtype = dtype;
          // A multiple of the ranks, as interleaved schedules need; and small enough to be quick.
          run.micro_batches = ranks <= 3 ? 6 : ranks == 5 ? 5 : 2 * ranks;
          run.partition_seed = ++seed % 2 == 0 ? seed : 0;
          runs.push_back(run);
        }
      }
    }
  }
  runs = Sample(runs, 7);  // 5 cuts, 6 numbers of ranks, 3 ways to recompute, 2 types
  // Other models, optimizers and numbers of micro-batches.
  for (const char* model : {"tied", "mlp"}) {
    for (int ranks : {1, 2, 3, 6}) {
      for (const char* schedule : {"1f1b", "zb-h1"}) {
        runs.push_back(
            {.model = model, .schedule = schedule, .ranks = ranks, .partition_seed = ++seed});
        runs.push_back({.model = model,
                        .schedule = schedule,
                        .ranks = ranks,
                        .recompute = Recompute::kFull,
                        .dtype = DType::kBFloat16,
                        .optimizer = OptimizerKind::kSgd});
      }
    }
  }
  runs.push_back({.model = "rms", .schedule = "1f1b", .ranks = 3, .partition_seed = ++seed});
  runs.push_back({.model = "rms",
                  .schedule = "zb-h1",
                  .ranks = 4,
                  .recompute = Recompute::kFull,
                  .dtype = DType::kBFloat16});
  runs.push_back({.model = "rms",
                  .schedule = "interleaved",
                  .chunks = 3,
                  .recompute = Recompute::kSelective,
                  .dtype = DType::kBFloat16,
                  .optimizer = OptimizerKind::kSgd});
  for (int micro_batches : {1, 2, 3, 7}) {
    for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
      runs.push_back({.schedule = schedule,
                      .ranks = 3,
                      .micro_batches = micro_batches,
                      .partition_seed = ++seed});
    }
  }
  return runs;
}

class BitwisePromise : public testing::TestWithParam<SmallRun> {};

TEST_P(BitwisePromise, EqualsOneStage) {
  absl::StatusOr<Outcome> outcome = Train(MakePlan(GetParam()), SmallOptions(kSteps));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(*outcome, BaselineOutcome(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Runs, BitwisePromise, testing::ValuesIn(Runs()),
                         [](const auto& run) { return run.param.Name(); });

// Every schedule there is, on its own placement.
INSTANTIATE_TEST_SUITE_P(Catalogue, BitwisePromise,
                         testing::ValuesIn(CatalogueRuns({"gpipe", "1f1b", "zb-h1"})),
                         [](const auto& run) { return run.param.Name(); });

// Activations rebuilt by separate RECOMPUTE actions: on every schedule, on all stages or some.
std::vector<SmallRun> RebuildingRuns() {
  std::vector<SmallRun> runs = CatalogueRuns({});
  std::erase_if(runs, [](const SmallRun& run) { return run.ranks != 2; });
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].recompute_ahead = true;
    runs[i].recompute = i % 3 == 0 ? Recompute::kSelective : Recompute::kFull;
    runs[i].dtype = i % 2 == 0 ? DType::kFloat32 : DType::kBFloat16;
  }
  for (const char* model : {"tied", "mlp", "rms"}) {
    runs.push_back({.model = model,
                    .ranks = 4,
                    .recompute = Recompute::kFull,
                    .recompute_ahead = true,
                    .partition_seed = 17});
  }
  runs.push_back(
      {.ranks = 1, .recompute = Recompute::kFull, .recompute_ahead = true, .sum_groups = 2});
  return runs;
}

INSTANTIATE_TEST_SUITE_P(Rebuilding, BitwisePromise, testing::ValuesIn(RebuildingRuns()),
                         [](const auto& run) { return run.param.Name(); });

// Several documents in a sample.
INSTANTIATE_TEST_SUITE_P(
    Documents, BitwisePromise,
    testing::Values(SmallRun{.schedule = "zb-h1", .ranks = 3, .documents = true},
                    SmallRun{.model = "tied",
                             .ranks = 4,
                             .recompute = Recompute::kFull,
                             .recompute_ahead = true,
                             .dtype = DType::kBFloat16,
                             .documents = true}),
    [](const auto& run) { return run.param.Name(); });

// With an adapter, or with some parameters frozen.
std::vector<SmallRun> AdaptedRuns() {
  std::vector<SmallRun> runs = CatalogueRuns({});
  std::erase_if(runs, [](const SmallRun& run) { return run.ranks > 3; });
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].adapted = std::array{"lora", "freeze", "dropout"}[i % 3];
    runs[i].dtype = i / 2 % 2 == 0 ? DType::kFloat32 : DType::kBFloat16;
    runs[i].recompute = static_cast<Recompute>(i / 3 % 3);
    runs[i].partition_seed = i;
  }
  for (const char* adapted : {"lora", "freeze", "dropout"}) {
    for (const char* model : {"tied", "rms"}) {
      runs.push_back({.model = model,
                      .ranks = 3,
                      .recompute = Recompute::kFull,
                      .recompute_ahead = true,
                      .adapted = adapted});
      runs.push_back({.model = model,
                      .schedule = "zb-h1",
                      .ranks = 4,
                      .optimizer = OptimizerKind::kSgd,
                      .sum_groups = 2,
                      .adapted = adapted});
    }
  }
  return runs;
}

INSTANTIATE_TEST_SUITE_P(Adapted, BitwisePromise, testing::ValuesIn(AdaptedRuns()),
                         [](const auto& run) { return run.param.Name(); });

TEST(Dropout, IsOfTraining) {
  const Outcome& plain = OutcomeOnce({.adapted = "lora"}, 3);
  const Outcome& dropped = OutcomeOnce({.adapted = "dropout"}, 3);
  // B begins as 0, so that nothing can be missed in the first step.
  EXPECT_EQ(dropped.losses[0], plain.losses[0]);
  EXPECT_NE(dropped.losses[2], plain.losses[2]);
  EXPECT_NE(dropped.weights_hash, plain.weights_hash);
}

// Gradients summed in groups have other bits, the same ones however the work is cut.
INSTANTIATE_TEST_SUITE_P(
    Groups, BitwisePromise,
    testing::Values(SmallRun{.schedule = "1f1b", .ranks = 3, .micro_batches = 6, .sum_groups = 2},
                    SmallRun{.schedule = "zb-h1", .ranks = 2, .micro_batches = 6, .sum_groups = 3},
                    SmallRun{.schedule = "interleaved", .ranks = 2, .chunks = 3, .sum_groups = 4},
                    SmallRun{
                        .model = "tied", .ranks = 3, .dtype = DType::kBFloat16, .sum_groups = 2}),
    [](const auto& run) { return run.param.Name(); });

TEST(Groups, GiveOtherBits) {
  EXPECT_NE(BaselineOutcome({.sum_groups = 2}).weights_hash, BaselineOutcome({}).weights_hash);
}

// The executor against a naive twin that has no stages, arena or instructions.
class NaiveTwin : public testing::TestWithParam<std::tuple<std::string, DType>> {};

TEST_P(NaiveTwin, HasTheSameFirstLoss) {
  const auto& [model, dtype] = GetParam();
  const SmallRun run{.model = model, .ranks = 3, .dtype = dtype};
  const RunPlan plan = MakePlan(run);
  absl::StatusOr<Outcome> outcome = Train(plan, SmallOptions(1));
  ASSERT_TRUE(outcome.ok()) << outcome.status();

  const BatchShape& batch = plan.request.batch;
  const HashedData data(plan.request.spec, batch.seq);
  const DType input = plan.layers.front().input_dtype;
  std::vector<MicroBatch> micro_batches(static_cast<size_t>(run.micro_batches));
  for (size_t mb = 0; mb < micro_batches.size(); ++mb) {
    micro_batches[mb].input.resize(
        static_cast<size_t>(batch.size * data.input_size() * SizeOf(input)));
    micro_batches[mb].targets.resize(static_cast<size_t>(batch.rows()));
    data.Fill(
        Split::kTrain, static_cast<int64_t>(mb), batch.size, input,
        {.input = micro_batches[mb].input.data(), .targets = micro_batches[mb].targets.data()});
  }
  ModelRunner naive(plan.request.spec, batch, dtype, CpuKernels(), SmallOptions(1).training.seed);
  const StepResult step = naive.Step(micro_batches);
  double sum = 0;
  for (double loss : step.losses) sum += loss;
  const auto mean = static_cast<float>(sum / static_cast<double>(batch.rows() * run.micro_batches));
  EXPECT_EQ(outcome->losses.front(), LossHex(mean));
}

INSTANTIATE_TEST_SUITE_P(Models, NaiveTwin,
                         testing::Combine(testing::Values("gpt", "tied", "rms", "mlp", "llama",
                                                          "qwen", "gemma"),
                                          testing::Values(DType::kFloat32, DType::kBFloat16)),
                         [](const auto& run) {
                           return std::get<0>(run.param) + "_" + DTypeName(std::get<1>(run.param));
                         });

}  // namespace
}  // namespace sluice
