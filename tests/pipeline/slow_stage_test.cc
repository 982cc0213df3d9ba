#include "pipeline/train/slow_stage.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace sluice {
namespace {

// Four stages with different times, each step up to a tenth faster or slower; `factors` are those
// of this step.
std::vector<double> Step(std::mt19937_64& random, const std::vector<double>& factors) {
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  std::vector<double> seconds;
  for (size_t stage = 0; stage < factors.size(); ++stage)
    seconds.push_back(0.01 * static_cast<double>(stage + 1) * factors[stage] * noise(random));
  return seconds;
}

constexpr double kStepSeconds = 1;

TEST(SlowStageWatch, NamesTheStageThatBecomesSlowOnceAndWithinTwentySteps) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    SlowStageWatch watch({{0, 0}, {1, 1}, {2, 2}, {3, 3}});
    std::vector<SlowStage> named;
    for (int64_t step = 1; step <= 80; ++step) {
      const double factor = step > 30 ? 2.3 : 1;
      if (const auto slow = watch.Observe(step, kStepSeconds, Step(random, {1, 1, factor, 1}))) {
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
    SlowStageWatch watch({{0, 0}, {0, 2}, {1, 1}, {1, 3}});
    for (int64_t step = 1; step <= 120; ++step) {
      const double hiccup = step % 17 == 0 ? 6 : 1;
      const double all = step > 60 ? 3 : 1;
      const std::vector<double> seconds = Step(random, {all, all * hiccup, all, all});
      EXPECT_FALSE(watch.Observe(step, kStepSeconds, seconds).has_value()) << "step " << step;
    }
  }
}

// Steps of 0.05 s: slowness that ends within two seconds is not reported, however many steps that
// is. A stage that is slow and fast in turn has not recovered.
TEST(SlowStageWatch, SaysNothingOfWhatDoesNotLast) {
  std::mt19937_64 random(3);
  SlowStageWatch watch({{0, 0}, {1, 1}});
  for (int64_t step = 1; step <= 640; ++step) {
    const bool slow = step % 160 >= 120;
    EXPECT_FALSE(watch.Observe(step, 0.05, Step(random, {slow ? 4.0 : 1.0, 1})).has_value());
  }
  int named = 0;
  for (int64_t step = 641; step <= 1400; ++step) {
    const bool slow = step < 800 || step % 40 >= 10;
    named += watch.Observe(step, 0.05, Step(random, {slow ? 4.0 : 1.0, 1})).has_value();
  }
  EXPECT_EQ(named, 1);
}

// Steps of 3 ms, every other one slow: like a process that gets only a part of its core.
TEST(SlowStageWatch, NamesAStageThatIsSlowInTheMean) {
  std::mt19937_64 random(4);
  SlowStageWatch watch({{0, 0}, {1, 1}});
  int named = 0;
  for (int64_t step = 1; step <= 10'000; ++step) {
    const bool slow = step > 5'000 && step % 2 == 0;
    named += watch.Observe(step, 0.003, Step(random, {1, slow ? 5.0 : 1.0})).has_value();
  }
  EXPECT_EQ(named, 1);
}

TEST(SlowStageWatch, NamesAStageAgainAfterItHasBeenQuick) {
  std::mt19937_64 random(1);
  SlowStageWatch watch({{0, 0}, {1, 1}});
  int named = 0;
  for (int64_t step = 1; step <= 120; ++step) {
    const bool slow = (step > 20 && step <= 50) || step > 80;
    const auto found = watch.Observe(step, kStepSeconds, Step(random, {slow ? 4.0 : 1.0, 1}));
    named += found.has_value();
    EXPECT_EQ(found ? found->stage : 0, 0);
  }
  EXPECT_EQ(named, 2);
}

TEST(SlowStageWatch, NamesTheReplicaOfAStageThatIsSlow) {
  std::mt19937_64 random(2);
  SlowStageWatch watch({{0, 0}, {1, 0}, {2, 0}, {3, 1}});
  std::vector<SlowStage> named;
  for (int64_t step = 1; step <= 60; ++step) {
    if (const auto slow =
            watch.Observe(step, kStepSeconds, Step(random, {1, step > 30 ? 2.3 : 1, 1, 1})))
      named.push_back(*slow);
  }
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].rank, 1);
  EXPECT_EQ(named[0].stage, 0);
}

TEST(SlowStageWatch, ToldOfAStageWithoutTimesItSaysNothing) {
  SlowStageWatch watch(std::vector<StageOnRank>(1));
  for (int64_t step = 1; step <= 30; ++step) {
    EXPECT_FALSE(watch.Observe(step, kStepSeconds, std::vector<double>(1)).has_value());
  }
}

}  // namespace
}  // namespace sluice
