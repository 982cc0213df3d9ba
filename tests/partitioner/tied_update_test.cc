#include <gtest/gtest.h>

#include <vector>

#include "partitioner/bounds/layer_choices.h"
#include "partitioner/partition_problem.h"
#include "schedules/generators/catalogue.h"

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

}  // namespace
}  // namespace sluice
