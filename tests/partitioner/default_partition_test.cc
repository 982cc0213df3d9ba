// The partition by FLOPs, of ranks and layers that are not as fast as these say.
#include "partitioner/planning/answer/default_partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

#include "models/spec/model_spec.h"
#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"
#include "schedules/simulate/simulate.h"

namespace sluice {
namespace {

using testing::HasSubstr;

ModelSpec SmallGpt(int64_t blocks) {
  DecoderConfig config;
  config.layers = blocks;
  config.dim = 64;
  config.heads = 2;
  config.max_seq = 64;
  return {"small", config};
}

// Every way to cut `layers` layers into `stages` stages.
void ForEachPartition(int layers, int stages, int first, Partition* begun,
                      const std::function<void(const Partition&)>& call) {
  if (stages == 1) {
    begun->push_back({first, layers - 1});
    call(*begun);
    begun->pop_back();
    return;
  }
  for (int last = first; last < layers - stages + 1; ++last) {
    begun->push_back({first, last});
    ForEachPartition(layers, stages - 1, last + 1, begun, call);
    begun->pop_back();
  }
}

TEST(DefaultPartitionTest, IsTheBestOfAllPartitionsForAnySpeeds) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> speed(0.2, 1), factor(0.5, 2);
  for (int round = 0; round < 40; ++round) {
    const ModelSpec spec = SmallGpt(static_cast<int64_t>(3 + random() % 5));
    const int chunks = round % 4 == 3 ? 2 : 1;
    const int ranks = static_cast<int>(1 + random() % (chunks == 2 ? 2 : 4));
    const char* const names[] = {"1f1b", "gpipe", "zb-h1", "interleaved"};
    absl::StatusOr<Timetable> timetable =
        GenerateSchedule(names[round % 4], {.ranks = ranks, .micro_batches = 4, .chunks = chunks});
    ASSERT_TRUE(timetable.ok()) << timetable.status();
    TrainedLayers layers = {.spec = &spec, .batch = {.size = 2, .seq = 64}};
    for (int rank = 0; rank < ranks; ++rank) layers.rank_speeds.push_back(speed(random));
    for (int layer = 0; layer < spec.layer_count(); ++layer)
      layers.layer_factors.push_back(factor(random));
    const absl::StatusOr<DefaultStages> best = DefaultPartition(layers, *timetable);
    ASSERT_TRUE(best.ok()) << best.status();
    double least = std::numeric_limits<double>::infinity();
    Partition begun;
    ForEachPartition(spec.layer_count(), ranks * chunks, 0, &begun, [&](const Partition& cut) {
      const absl::StatusOr<StageCosts> costs = PriceDefaultStages(layers, *timetable, cut);
      ASSERT_TRUE(costs.ok()) << costs.status();
      const absl::StatusOr<Simulation> run = Simulate(*timetable, *costs);
      ASSERT_TRUE(run.ok()) << run.status();
      least = std::min(least, run->makespan);
      if (cut == best->partition) {
        EXPECT_NEAR(run->makespan, best->seconds, 1e-9 * best->seconds);
      }
    });
    EXPECT_NEAR(best->seconds, least, 1e-9 * least) << round;
    EXPECT_LE(best->lower_bound, least * (1 + 1e-9));
    EXPECT_GT(best->lower_bound, 0);
  }
}

TEST(DefaultPartitionTest, AStageOnAFastRankCostsLess) {
  const ModelSpec spec = SmallGpt(4);
  const absl::StatusOr<Timetable> timetable =
      GenerateSchedule("1f1b", {.ranks = 2, .micro_batches = 4});
  ASSERT_TRUE(timetable.ok());
  TrainedLayers layers = {.spec = &spec, .batch = {.size = 2, .seq = 64}};
  const Partition halves = {{0, 2}, {3, spec.layer_count() - 1}};
  const absl::StatusOr<StageCosts> alike = PriceDefaultStages(layers, *timetable, halves);
  layers.rank_speeds = {1, 0.5};
  layers.layer_factors.assign(static_cast<size_t>(spec.layer_count()), 3);
  const absl::StatusOr<StageCosts> other = PriceDefaultStages(layers, *timetable, halves);
  ASSERT_TRUE(alike.ok() && other.ok());
  EXPECT_DOUBLE_EQ(other->forward[0], 3 * alike->forward[0]);
  EXPECT_DOUBLE_EQ(other->forward[1], 6 * alike->forward[1]);
  EXPECT_DOUBLE_EQ(other->weight_grad[1], 6 * alike->weight_grad[1]);

  layers.layer_factors.pop_back();
  EXPECT_THAT(DefaultPartition(layers, *timetable).status().message(),
              HasSubstr("got factors of 5 layers; the model has 6"));
  layers.layer_factors.clear();
  layers.rank_speeds = {1};
  EXPECT_FALSE(DefaultPartition(layers, *timetable).ok());
  EXPECT_FALSE(PriceDefaultStages(layers, *timetable, {{0, 5}}).ok());
}

// A stage whose activations are all computed again has its forward once more before its backward.
TEST(DefaultPartitionTest, WhatIsComputedAgainCosts) {
  const ModelSpec spec = SmallGpt(4);
  const TrainedLayers layers = {.spec = &spec, .batch = {.size = 2, .seq = 64}};
  const Partition halves = {{0, 2}, {3, spec.layer_count() - 1}};
  const absl::StatusOr<Timetable> timetable =
      GenerateSchedule("1f1b", {.ranks = 2, .micro_batches = 4});
  ASSERT_TRUE(timetable.ok()) << timetable.status();
  const absl::StatusOr<StageCosts> kept = PriceDefaultStages(layers, *timetable, halves);
  const absl::StatusOr<StageCosts> again =
      PriceDefaultStages(layers, *timetable, halves, {Recompute::kFull});
  ASSERT_TRUE(kept.ok() && again.ok());
  EXPECT_EQ(again->forward, kept->forward);
  EXPECT_DOUBLE_EQ(again->backward[0], kept->backward[0] + kept->forward[0]);
  EXPECT_DOUBLE_EQ(again->input_grad[0], kept->input_grad[0] + kept->forward[0]);
  EXPECT_EQ(again->weight_grad, kept->weight_grad);
  EXPECT_EQ(again->backward[1], kept->backward[1]);
}

// Every copy of the model, and every version of its weights, has the same layers.
TEST(DefaultPartitionTest, StagesOfOtherSchedulesCostWhatThoseOfAPlainPipelineDo) {
  const ModelSpec spec = SmallGpt(4);
  const TrainedLayers layers = {.spec = &spec, .batch = {.size = 2, .seq = 64}};
  const Partition halves = {{0, 1}, {2, spec.layer_count() - 1}};
  const auto price = [&](const char* schedule, int chunks) {
    const absl::StatusOr<Timetable> timetable =
        GenerateSchedule(schedule, {.ranks = 2, .micro_batches = 4, .chunks = chunks});
    EXPECT_TRUE(timetable.ok()) << timetable.status();
    const absl::StatusOr<StageCosts> costs = PriceDefaultStages(layers, *timetable, halves);
    EXPECT_TRUE(costs.ok()) << costs.status();
    EXPECT_TRUE(Simulate(ComputeOnly(*timetable), *costs).ok()) << schedule;
    return *costs;
  };
  const StageCosts plain = price("1f1b", 1), versions = price("pipedream", 1);
  const StageCosts copies = price("chimera", 2);
  ASSERT_NE(plain.forward[0], plain.forward[1]);
  EXPECT_EQ(versions.forward, plain.forward);
  EXPECT_EQ(versions.backward, plain.backward);
  ASSERT_EQ(copies.forward.size(), 4);
  for (size_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(copies.forward[stage], plain.forward[stage % 2]);
    EXPECT_EQ(copies.input_grad[stage], plain.input_grad[stage % 2]);
    EXPECT_EQ(copies.weight_grad[stage], plain.weight_grad[stage % 2]);
    EXPECT_EQ(copies.backward[stage], plain.backward[stage % 2]);
  }
}

}  // namespace
}  // namespace sluice
