#include "pipeline/slow_stage.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace sluice {
namespace {

// Four stages, none like another, each step a tenth faster or slower; `factors` of this step.
StageCosts Step(std::mt19937_64& random, const std::vector<double>& factors) {
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  StageCosts costs = StageCosts::Uniform(static_cast<int>(factors.size()), 0, 0, 0);
  for (size_t stage = 0; stage < factors.size(); ++stage) {
    const double seconds = 0.01 * static_cast<double>(stage + 1) * factors[stage] * noise(random);
    costs.forward[stage] = seconds / 3;
    costs.backward[stage] = 2 * seconds / 3;
  }
  return costs;
}

TEST(SlowStageWatch, NamesTheStageThatBecomesSlowOnceAndWithinTwentySteps) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    SlowStageWatch watch({0, 1, 2, 3});
    std::vector<SlowStage> named;
    for (int64_t step = 1; step <= 80; ++step) {
      const double factor = step > 30 ? 2.3 : 1;
      if (const auto slow = watch.Observe(step, Step(random, {1, 1, factor, 1}))) {
        named.push_back(*slow);
      }
    }
    ASSERT_EQ(named.size(), 1u);
    EXPECT_EQ(named[0].stage, 2);
    EXPECT_GT(named[0].step, 30);
    EXPECT_LE(named[0].step, 50);
    EXPECT_NEAR(named[0].factor, 2.3, 0.35);
    EXPECT_NEAR(named[0].others, 1, 0.2);
  }
}

TEST(SlowStageWatch, SaysNothingOfNoiseOneSlowStepOrAMachineThatIsSlowAsAWhole) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    SlowStageWatch watch({0, 0, 1, 1});
    for (int64_t step = 1; step <= 120; ++step) {
      const double hiccup = step % 17 == 0 ? 6 : 1;
      const double all = step > 60 ? 3 : 1;
      const StageCosts costs = Step(random, {all, all * hiccup, all, all});
      EXPECT_FALSE(watch.Observe(step, costs).has_value()) << "step " << step;
    }
  }
}

TEST(SlowStageWatch, NamesAStageAgainAfterItHasBeenQuick) {
  std::mt19937_64 random(1);
  SlowStageWatch watch({0, 1});
  int named = 0;
  for (int64_t step = 1; step <= 120; ++step) {
    const bool slow = (step > 20 && step <= 50) || step > 80;
    const auto found = watch.Observe(step, Step(random, {slow ? 4.0 : 1.0, 1}));
    named += found.has_value();
    EXPECT_EQ(found ? found->stage : 0, 0);
  }
  EXPECT_EQ(named, 2);
}

TEST(SlowStageWatch, ToldOfAStageWithoutTimesItSaysNothing) {
  SlowStageWatch watch({0});
  for (int64_t step = 1; step <= 30; ++step) {
    EXPECT_FALSE(watch.Observe(step, StageCosts::Uniform(1, 0, 0, 0)).has_value());
  }
}

}  // namespace
}  // namespace sluice
