// Stages with different numbers of replicas give the bits of one pipeline that sums gradients in as
// many groups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "pipeline/dealt_times.h"
#include "schedules/catalogue.h"
#include "schedules/validate.h"
#include "tests/pipeline/small_run.h"

namespace sluice {
namespace {

using testing::HasSubstr;

constexpr int64_t kSteps = 2;

// One rank, one stage.
SmallRun Baseline(SmallRun run) {
  run.sum_groups = MakePlan(run).sum_groups();
  run.ranks = 1;
  run.stage_replicas = {};
  run.zero = 0;
  run.schedule = "gpipe";
  run.recompute = Recompute::kNone;
  run.partition_seed = 0;
  return run;
}

// Two to four stages of one to three replicas each, seven ranks at most, and some number of groups
// that they all divide.
std::vector<SmallRun> Runs() {
  const char* schedules[] = {"gpipe", "1f1b", "zb-h1", "eager-1f1b", "zb-2p"};
  std::mt19937_64 random(20);
  const auto below = [&random](int n) {
    return static_cast<int>(random() % static_cast<uint64_t>(n));
  };
  std::vector<SmallRun> runs;
  for (int number = 0; number < 36; ++number) {
    SmallRun run{.model = number % 4 == 0 ? "gpt" : "wide",
                 .schedule = schedules[number % 5],
                 .micro_batches = 12,
                 .recompute = static_cast<Recompute>(below(3)),
                 .dtype = number % 3 == 0 ? DType::kBFloat16 : DType::kFloat32,
                 .partition_seed = static_cast<uint64_t>(below(3)),
                 .optimizer = number % 7 == 0 ? OptimizerKind::kSgd : OptimizerKind::kAdamW,
                 .sum_groups = number % 2 == 0 ? 0 : 6,
                 .zero = number % 4 == 1 ? 1 : 0};
    do {
      run.ranks = 2 + below(3);
      run.stage_replicas.clear();
      for (int stage = 0; stage < run.ranks; ++stage) run.stage_replicas.push_back(1 + below(3));
    } while (std::accumulate(run.stage_replicas.begin(), run.stage_replicas.end(), 0) > 7);
    runs.push_back(run);
  }
  runs.push_back({.ranks = 1, .micro_batches = 6, .stage_replicas = {3}});
  runs.push_back({.model = "wide_tied", .ranks = 1, .micro_batches = 4, .stage_replicas = {2}});
  runs.push_back({.model = "mlp", .ranks = 3, .micro_batches = 4, .stage_replicas = {1, 4, 1}});
  return runs;
}

class StageReplicas : public testing::TestWithParam<SmallRun> {};

TEST_P(StageReplicas, EqualOnePipeline) {
  absl::StatusOr<Outcome> outcome = Train(MakePlan(GetParam()), SmallOptions(kSteps));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(*outcome, OutcomeOnce(Baseline(GetParam()), kSteps));
}

TEST_P(StageReplicas, TakeThePredictedMemory) { ExpectPredictedMemory(MakePlan(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Random, StageReplicas, testing::ValuesIn(Runs()),
                         [](const auto& run) {
                           return absl::StrCat("n", run.index, "_", run.param.Name());
                         });

}  // namespace
}  // namespace sluice
