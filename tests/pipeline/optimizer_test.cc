#include "pipeline/run/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nlohmann/json.hpp"
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

TEST(Trace, IsJsonWithEveryActionOnce) {
  const RunPlan plan = MakePlan({.schedule = "zb-h1", .ranks = 3});
  const HashedData data(plan.request.spec, plan.request.batch.seq);
  TrainOptions options = SmallOptions(2);
  options.watching.trace = true;
  absl::StatusOr<TrainResult> result = TrainInProcess(plan, data, options, {}, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  const nlohmann::json trace = nlohmann::json::parse(FormatTrace(result->trace, plan.lowered));
  std::map<std::string, int> seen;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++seen[event["name"].get<std::string>()];
    EXPECT_EQ(event["pid"], 1);
    EXPECT_EQ(event["args"]["rank"], event["args"]["stage"]);
    EXPECT_EQ(event["tid"], event["args"]["rank"].get<int>() + 1);
    EXPECT_EQ(event["name"].get<std::string>().substr(1, 1), event["cat"]);
    EXPECT_GE(event["ts"].get<double>(), 0);
    EXPECT_GE(event["dur"].get<double>(), 0);
  }
  EXPECT_EQ(seen.size(), 3U * 3U * 4U);  // F, I and W of three stages and four micro-batches
  for (const auto& [name, count] : seen) EXPECT_EQ(count, 2) << name;
}

TEST(Trace, HasTheStepsThatAreAskedFor) {
  const RunPlan plan = MakePlan({.schedule = "1f1b", .ranks = 2});
  const HashedData data(plan.request.spec, plan.request.batch.seq);
  TrainOptions options = SmallOptions(5);
  options.watching.trace = true;
  options.watching.trace_steps = {.first = 2, .last = 3};
  const absl::StatusOr<TrainResult> result = TrainInProcess(plan, data, options, {}, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  std::map<int64_t, int> actions;
  for (const TracedAction& traced : result->trace) ++actions[traced.step];
  // F and B of two stages and four micro-batches, of each of the two steps.
  EXPECT_EQ(actions, (std::map<int64_t, int>{{2, 16}, {3, 16}}));
}

// What the trace shows ran in the order of the timetable, and no action before what it depends on.
TEST(Trace, KeepsTheDependencies) {
  const RunPlan plan = MakePlan({.schedule = "interleaved", .ranks = 2, .chunks = 2});
  const HashedData data(plan.request.spec, plan.request.batch.seq);
  TrainOptions options = SmallOptions(1);
  options.watching.trace = true;
  absl::StatusOr<TrainResult> result = TrainInProcess(plan, data, options, {}, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  std::map<std::string, ActionTime> times;
  for (const TracedAction& traced : result->trace) times[ToString(traced.action)] = traced.time;
  const int stages = plan.lowered.placement.stages();
  for (int mb = 0; mb < plan.lowered.micro_batches; ++mb) {
    for (uint16_t stage = 1; stage < stages; ++stage) {
      const auto before = static_cast<uint16_t>(stage - 1);
      EXPECT_LE(times[ToString({Op::kForward, false, before, mb})].end,
                times[ToString({Op::kForward, false, stage, mb})].start);
      // A gradient is sent before the weight gradients of the stage's first layer are computed.
      EXPECT_LE(times[ToString({Op::kBackward, false, stage, mb})].start,
                times[ToString({Op::kBackward, false, before, mb})].start);
    }
  }
}

}  // namespace
}  // namespace sluice
