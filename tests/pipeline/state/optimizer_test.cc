#include "pipeline/state/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/pipeline/small_run.h"

namespace sluice {
namespace {

TEST(LearningRate, WarmsUpLinearlyThenFollowsHalfACosine) {
  OptimizerOptions options;
  options.lr = 2;
  options.warmup = 10;
  options.schedule = LrSchedule::kCosine;
  EXPECT_DOUBLE_EQ(LearningRate(options, 1, 110), 0.2);
  EXPECT_DOUBLE_EQ(LearningRate(options, 10, 110), 2);
  EXPECT_NEAR(LearningRate(options, 60, 110), 0.2 + 1.8 / 2, 1e-12);
  EXPECT_NEAR(LearningRate(options, 110, 110), 0.2, 1e-12);
  for (int64_t step = 10; step < 110; ++step) {
    EXPECT_GT(LearningRate(options, step, 110), LearningRate(options, step + 1, 110));
  }
}

TEST(LearningRate, ConstantStaysAndZeroStepsAreHarmless) {
  OptimizerOptions options;
  EXPECT_DOUBLE_EQ(LearningRate(options, 1, 1), options.lr);
  EXPECT_DOUBLE_EQ(LearningRate(options, 1000, 10), options.lr);
  options.schedule = LrSchedule::kCosine;
  EXPECT_TRUE(std::isfinite(LearningRate(options, 1, 0)));
}

// Both layers that share a tied parameter have the same bits of it after training, on whatever
// ranks they are.
TEST(TiedParameters, StayEqual) {
  for (int ranks : {1, 2, 4}) {
    const RunPlan plan = MakePlan({.model = "tied", .ranks = ranks});
    const HashedData data(plan.request.spec, plan.request.batch.seq);
    TrainOptions options = SmallOptions(3);
    options.saving.directory = testing::TempDir() + "/tied";
    ASSERT_TRUE(TrainInProcess(plan, data, options, {}, nullptr).ok());
    // The checkpoint stores the parameter once; a run that resumes from it with both layers
    // computes what a run that never stopped does.
    TrainOptions whole = SmallOptions(5);
    absl::StatusOr<Outcome> never_stopped = Train(plan, whole);
    whole.saving.resume = options.saving.directory;
    absl::StatusOr<Outcome> resumed = Train(plan, whole);
    ASSERT_TRUE(never_stopped.ok() && resumed.ok());
    EXPECT_EQ(resumed->weights_hash, never_stopped->weights_hash) << ranks;
  }
}

}  // namespace
}  // namespace sluice
