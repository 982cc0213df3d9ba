#include "partitioner/free_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "partitioner/exact_partition.h"
#include "partitioner/plan_builder.h"
#include "partitioner/plan_file.h"
#include "partitioner/v_cut.h"
#include "schedules/csv.h"
#include "schedules/validate.h"
#include "tests/partitioner/brute_force.h"

namespace sluice {
namespace {

// Fifty blocks alike, an embedding and a head, over 16 devices: some need one layer more.
std::vector<LayerCost> SomeModel() {
  LayerCost block;
  block.forward_seconds = 1;
  block.input_grad_seconds = 1.1;
  block.weight_grad_seconds = 0.9;
  block.parameter_bytes = 10;
  block.saved_bytes = {10, 6, 1};
  block.weight_grad_bytes = 10;
  block.workspace_bytes = 3;
  std::vector<LayerCost> layers(52, block);
  layers.front().forward_seconds = 0.01;
  layers.front().input_grad_seconds = layers.front().weight_grad_seconds = 0;
  layers.back().forward_seconds = layers.back().input_grad_seconds = 1.5;
  for (size_t i = 0; i < layers.size(); ++i) layers[i].name = "layer " + std::to_string(i);
  return layers;
}

PlanRequest RequestFor(const CostTable& costs, int64_t memory) {
  PlanRequest request;
  request.costs = &costs;
  request.devices = 16;
  request.micro_batches = 600;
  request.memory_limit = memory;
  return request;
}

TEST(FullRanksFirst, CutsAVOfRanksThatNeverWorkTooLong) {
  Random random(1);
  int cut = 0;
  for (int trial = 0; trial < 2'000; ++trial) {
    const int ranks = 1 + Below(random, 8), layers = 2 * ranks + Below(random, 30);
    std::vector<double> work(layers);
    for (double& seconds : work) seconds = 1 + Below(random, 4);
    const double all = std::accumulate(work.begin(), work.end(), 0.0);
    const double most = all / ranks * (1 + 0.1 * Below(random, 10));
    const double share = 0.1 + 0.1 * Below(random, 9);
    const Partition partition = FullRanksFirst(work, ranks, most, share);
    if (partition.empty()) continue;
    ++cut;
    ASSERT_EQ(partition.size(), static_cast<size_t>(2 * ranks));
    std::vector<double> of_rank(ranks);
    int next = 0;
    for (int stage = 0; stage < 2 * ranks; ++stage) {
      EXPECT_EQ(partition[stage].first, next);
      EXPECT_GE(partition[stage].size(), 1);
      next = partition[stage].last + 1;
      for (int layer = partition[stage].first; layer < next; ++layer) {
        of_rank[std::min(stage, 2 * ranks - 1 - stage)] += work[layer];
      }
    }
    EXPECT_EQ(next, layers);
    for (double seconds : of_rank) EXPECT_LE(seconds, most);
  }
  EXPECT_GT(cut, 500);
}

TEST(RecomputeInSpareTime, MakesNoRankWorkLongerThanTheFullest) {
  Random random(2);
  int recomputing = 0, not_recomputing = 0;
  for (int trial = 0; trial < 500; ++trial) {
    const int ranks = 1 + Below(random, 5);
    const CostTable costs = *CostTable::Create(RandomLayers(random, 2 * ranks + Below(random, 9)));
    Partition partition;
    const int each = costs.layer_count() / (2 * ranks);
    for (int stage = 0; stage < 2 * ranks; ++stage) {
      const int last = stage + 1 == 2 * ranks ? costs.layer_count() : (stage + 1) * each;
      partition.push_back({stage * each, last - 1});
    }
    const std::vector<Recompute> recompute =
        RecomputeInSpareTime(costs, partition, Recompute::kNone, Recompute::kFull);
    const auto work = [&](int rank, bool recomputes) {
      double seconds = 0;
      for (const int stage : {rank, 2 * ranks - 1 - rank}) {
        const RangeCost cost = costs.Price(partition[stage].first, partition[stage].last + 1,
                                           recomputes ? recompute[stage] : Recompute::kNone);
        seconds += cost.forward + cost.input_grad + cost.weight_grad;
      }
      return seconds;
    };
    double fullest = 0;
    for (int rank = 0; rank < ranks; ++rank) fullest = std::max(fullest, work(rank, false));
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_LE(work(rank, true), fullest);
      EXPECT_EQ(recompute[2 * ranks - 1 - rank], Recompute::kNone);
      ++(recompute[rank] == Recompute::kFull ? recomputing : not_recomputing);
    }
  }
  EXPECT_GT(recomputing, 100);
  EXPECT_GT(not_recomputing, 100);
}

TEST(FreeOrder, IsSoundFitsAndTakesWhatItSays) {
  const CostTable costs = *CostTable::Create(SomeModel());
  int found = 0;
  for (const int64_t memory : {300, 500, 800, 1'500}) {
    const PlanRequest request = RequestFor(costs, memory);
    const std::optional<FreeOrder> order = FindFreeOrder(request);
    if (!order) continue;
    ++found;
    const PartitionProblem problem = ProblemOf(request, order->candidate);
    EXPECT_TRUE(ValidateTimetable(order->candidate.timetable).ok());
    EXPECT_TRUE(Fits(problem, order->assignment)) << memory;
    EXPECT_NEAR(order->seconds, SimulatedSeconds(problem, order->assignment), 1e-7);
    EXPECT_GE(order->seconds, StepFloor(request) * (1 - kProofTolerance));
  }
  EXPECT_GE(found, 2);
}

TEST(FreeOrder, IsLeftOutWhereTheCatalogueWillDoOrIsAskedFor) {
  const CostTable costs = *CostTable::Create(SomeModel());
  const PlanRequest request = RequestFor(costs, 1'500);
  ASSERT_TRUE(FindFreeOrder(request).has_value());
  const auto with = [&](const auto& change) {
    PlanRequest other = request;
    change(other);
    return FindFreeOrder(other).has_value();
  };
  EXPECT_FALSE(with([](PlanRequest& other) { other.micro_batches = 100; }));
  EXPECT_FALSE(with([](PlanRequest& other) { other.schedule = "1f1b"; }));
  EXPECT_FALSE(with([](PlanRequest& other) { other.chunks = 2; }));
  EXPECT_FALSE(with([](PlanRequest& other) { other.cutoff = StepFloor(other); }));
  EXPECT_FALSE(with([](PlanRequest& other) { other.memory_limit = 60; }));
}

// What is near enough to the floor of all orders needs no search, and comes back out of its file.
TEST(FreeOrder, EndsAPlanThatMayHaveAGapAndIsWrittenWithItsOrder) {
  const CostTable costs = *CostTable::Create(SomeModel());
  PlanRequest request = RequestFor(costs, 1'500);
  request.gap = 0.05;
  const absl::StatusOr<Plan> plan = MakePlan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->schedule, kOwnOrder);
  EXPECT_LE(plan->gap(), request.gap);
  EXPECT_EQ(plan->lower_bound, StepFloor(request));
  EXPECT_TRUE(plan->rejected.empty());

  std::vector<std::string> names;
  for (const LayerCost& layer : costs.layers()) names.push_back(layer.name);
  PlanContext context;
  context.model = "profile";
  const absl::StatusOr<PlanFile> file = ParsePlan(FormatPlan(*plan, context, names), "plan.json");
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::StatusOr<Timetable> order = ParseTimetableCsv(file->timetable, "plan.json");
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_EQ(order->rows, plan->timetable.rows);
  EXPECT_EQ(order->placement.rank_of_stage(), plan->timetable.placement.rank_of_stage());
}

}  // namespace
}  // namespace sluice
