#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "partitioner/bounds/layer_choices.h"
#include "partitioner/partition_problem.h"
#include "schedules/generators/catalogue.h"
#include "tests/partitioner/brute_force.h"

namespace sluice {
namespace {

// A head and an embedding that share their weights update them once on a rank that has both, and
// once on each where they are apart.
TEST(PriceStages, WhatIsTiedIsUpdatedOnceByARankThatHasBothEnds) {
  std::vector<LayerCost> layers(4);
  for (LayerCost& layer : layers) layer.forward_seconds = layer.update_seconds = 1;
  layers[0].update_seconds = 10;
  layers[3].update_seconds = 11;
  layers[3].tied_update_seconds = 10;
  const auto tails = [&](const char* schedule, int ranks, int chunks) {
    const Timetable timetable =
        *GenerateSchedule(schedule, {.ranks = ranks, .micro_batches = 4, .chunks = chunks});
    PartitionProblem problem;
    problem.machines.costs = *CostTable::CreateShared(layers);
    problem.timetable = &timetable;
    const int stages = ranks * chunks;
    const StageAssignment assignment = {*EvenPartition(4, stages),
                                        std::vector<Recompute>(stages, Recompute::kNone)};
    // The search prices its choices alike.
    const std::vector<RangeCost> priced = PriceStages(problem, assignment);
    for (int stage = 0; stage < stages; ++stage) {
      const LayerRange& range = assignment.partition[stage];
      EXPECT_EQ(MakeChoice(problem, stage, range.first, range.last + 1, Recompute::kNone).tail,
                priced[stage].tail);
    }
    return ToStepCosts(problem, priced).tail;
  };
  using Tails = std::vector<double>;
  EXPECT_EQ(tails("1f1b", 1, 1), (Tails{10 + 1 + 1 + 1}));
  EXPECT_EQ(tails("1f1b", 2, 1), (Tails{11, 12}));
  EXPECT_EQ(tails("zbv", 2, 2), (Tails{10, 1, 1, 1}));
  EXPECT_EQ(tails("interleaved", 2, 2), (Tails{10, 1, 1, 11}));
}

// Layers that cost nothing but what the last one has in common with the first.
std::vector<LayerCost> SwappingLayers() {
  std::vector<LayerCost> layers(4);
  layers[3].tied_gradient_bytes = 60;
  layers[3].tied_sum_seconds = 5;
  return layers;
}

TEST(PriceStages, GradientsOfWhatIsTiedAreSwappedByTwoRanksThatHaveOneEndEach) {
  const auto stages_of = [](const char* schedule, int ranks, int chunks) {
    const Timetable timetable =
        *GenerateSchedule(schedule, {.ranks = ranks, .micro_batches = 4, .chunks = chunks});
    PartitionProblem problem;
    problem.machines.costs = *CostTable::CreateShared(SwappingLayers());
    problem.machines.link = {.latency = 1, .bandwidth = 30};
    problem.timetable = &timetable;
    const int stages = ranks * chunks;
    return PriceStages(
        problem, {*EvenPartition(4, stages), std::vector<Recompute>(stages, Recompute::kNone)});
  };
  using Seconds = std::vector<double>;
  const auto tails = [&](const char* schedule, int ranks, int chunks) {
    Seconds seconds;
    for (const RangeCost& stage : stages_of(schedule, ranks, chunks)) seconds.push_back(stage.tail);
    return seconds;
  };
  const auto exchanges = [&](const char* schedule, int ranks, int chunks) {
    Seconds seconds;
    for (const RangeCost& stage : stages_of(schedule, ranks, chunks))
      seconds.push_back(stage.tied_exchange);
    return seconds;
  };
  // A rank that has both adds up the gradients, too.
  EXPECT_EQ(tails("1f1b", 1, 1), (Seconds{5}));
  EXPECT_EQ(tails("zbv", 2, 2), (Seconds{0, 0, 0, 5}));
  EXPECT_EQ(exchanges("1f1b", 1, 1), (Seconds{0}));
  EXPECT_EQ(exchanges("zbv", 2, 2), (Seconds{0, 0, 0, 0}));
  for (const auto& seconds : {tails("1f1b", 2, 1), exchanges("1f1b", 2, 1)})
    EXPECT_EQ(seconds, (Seconds{1 + 2 + 5, 1 + 2 + 5}));
  for (const auto& seconds : {tails("interleaved", 2, 2), exchanges("interleaved", 2, 2)})
    EXPECT_EQ(seconds, (Seconds{8, 0, 0, 8}));
}

// The ranks may differ: the bytes go over the link from the last to the first.
TEST(PriceStages, GradientsAreSwappedOverTheLinkBetweenBothEnds) {
  const Timetable timetable = *GenerateSchedule("1f1b", {.ranks = 3, .micro_batches = 4});
  PartitionProblem problem;
  problem.machines.costs = *CostTable::CreateShared(SwappingLayers());
  std::vector<LayerCost> slow = SwappingLayers();
  slow[3].tied_sum_seconds = 9;
  problem.machines.rank_costs = {*CostTable::CreateShared(slow), problem.machines.costs,
                                 problem.machines.costs};
  problem.machines.rank_links = {{.bandwidth = 1}, {.bandwidth = 2}, {.bandwidth = 20}};
  problem.timetable = &timetable;
  const std::vector<RangeCost> stages =
      PriceStages(problem, {*EvenPartition(4, 3), std::vector<Recompute>(3, Recompute::kNone)});
  EXPECT_EQ(stages[0].tail, 60.0 / 20 + 9);
  EXPECT_EQ(stages[1].tail, 0);
  EXPECT_EQ(stages[2].tail, 60.0 / 20 + 5);
}

// The naive twin: what a stage does once per step, layer by layer.
double TailOf(const PartitionProblem& problem, const Partition& partition, size_t stage) {
  const Placement& placement = problem.timetable->placement;
  const int rank = placement.rank(static_cast<int>(stage));
  const std::vector<LayerCost>& layers = problem.machines.CostsOf(rank).layers();
  const int last = problem.layer_count() - 1;
  const int of_first = placement.rank(0), of_last = placement.rank(problem.stages() - 1);
  double seconds = 0;
  for (int i = partition[stage].first; i <= partition[stage].last; ++i) {
    seconds += layers[i].update_seconds + layers[i].sync_seconds;
    if (rank == of_first) seconds -= layers[i].tied_update_seconds;
  }
  const int64_t bytes = layers[last].tied_gradient_bytes;
  const bool ends = partition[stage].first == 0 || partition[stage].last == last;
  if (of_first != of_last && ends && bytes > 0)
    return seconds + problem.machines.LinkBetween(of_last, of_first).Seconds(bytes) +
           layers[last].tied_sum_seconds;
  return seconds + (partition[stage].last == last ? layers[last].tied_sum_seconds : 0);
}

TEST(PriceStages, TailsAreWhatTheLayersSay) {
  int swapped = 0;
  for (uint64_t seed = 0; seed < 2'000; ++seed) {
    RandomCase test(seed);
    SCOPED_TRACE(test.Describe() + " seed " + std::to_string(seed));
    const PartitionProblem& problem = test.problem;
    ForEachPartition(problem.layer_count(), problem.stages(), [&](const Partition& partition) {
      const StageAssignment assignment = {
          partition, std::vector<Recompute>(partition.size(), Recompute::kNone)};
      const std::vector<RangeCost> stages = PriceStages(problem, assignment);
      for (size_t stage = 0; stage < stages.size(); ++stage) {
        EXPECT_NEAR(stages[stage].tail, TailOf(problem, partition, stage), 1e-9);
        EXPECT_LE(stages[stage].tied_exchange, stages[stage].tail + 1e-9);
        swapped += stages[stage].tied_exchange > 0;
      }
    });
  }
  EXPECT_GT(swapped, 1'000);
}

TEST(CostTable, RefusesGradientsInCommonOfAnyLayerButTheLast) {
  std::vector<LayerCost> layers = SwappingLayers();
  layers[1].name = "block 0";
  layers[1].tied_gradient_bytes = 4;
  const absl::Status refused = CostTable::Create(layers).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("layer 'block 0': tied_gradient_bytes is 4"));
  layers[1].tied_gradient_bytes = 0;
  EXPECT_TRUE(CostTable::Create(layers).ok());
  layers[3].tied_gradient_bytes = -4;
  EXPECT_FALSE(CostTable::Create(layers).ok());
}

}  // namespace
}  // namespace sluice
