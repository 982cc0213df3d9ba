#include "partitioner/bounds/fill_floor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "partitioner/bounds/least_layer.h"
#include "partitioner/bounds/step_floor.h"
#include "partitioner/search/partition_answer.h"
#include "partitioner/workload.h"
#include "schedules/optimise/optimise.h"
#include "tests/partitioner/brute_force.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

// A few kinds of layers, as in real models.
std::vector<LayerCost> RandomModel(Random& random, int count) {
  const std::vector<LayerCost> kinds = RandomLayers(random, 2);
  std::vector<LayerCost> layers;
  for (int i = 0; i < count; ++i) {
    layers.push_back(kinds[Below(random, 4) == 0 ? 1 : 0]);
    LayerCost& layer = layers.back();
    layer.workspace_bytes = layer.forward_workspace_bytes = 0;
    layer.tied_bytes = layer.tied_gradient_bytes = 0;
    layer.tied_sum_seconds = 0;
  }
  if (count > 1 && layers.front().saved_bytes[0] % 2 == 0) TieLastLayer(layers);
  return layers;
}

Workload RandomWorkload(Random& random, const CostTable& costs) {
  Workload workload;
  workload.machines.costs = std::make_shared<const CostTable>(costs);
  workload.devices = 1 + Below(random, 3);
  workload.micro_batches = 1 + Below(random, 10);
  if (random() % 2 == 0) {
    workload.policies = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
  }
  workload.machines.memory_limit = 100 + Below(random, 1'500);
  return workload;
}

// Seconds of the best order that the optimiser finds for one assignment; empty where none fits.
double BestOrder(const Workload& workload, const Timetable& shape,
                 const StageAssignment& assignment) {
  PartitionProblem problem;
  problem.machines = workload.machines;
  problem.timetable = &shape;
  problem.policies = workload.policies;
  const std::vector<RangeCost> stages = PriceStages(problem, assignment);
  OptimiseRequest wanted;
  wanted.placement = shape.placement;
  wanted.micro_batches = shape.micro_batches;
  wanted.costs = ToStepCosts(problem, stages);
  wanted.effort = 0.05;
  for (int rank = 0; rank < shape.placement.ranks(); ++rank) {
    const int64_t held = HeldBytes(problem, rank, assignment.partition);
    wanted.limits.bytes.push_back(static_cast<double>(*workload.machines.memory_limit - held));
  }
  const absl::StatusOr<OptimisedTimetable> best = OptimiseTimetable(wanted);
  return best.ok() ? best->run.makespan : kNothing;
}

// What the ranks have to do at most, each by itself, when their last backward is done.
double LongestTail(const CostTable& costs, const Placement& placement, const Partition& cut) {
  std::vector<double> tails(static_cast<size_t>(placement.ranks()));
  for (int stage = 0; stage < placement.stages(); ++stage) {
    double& tail = tails[static_cast<size_t>(placement.rank(stage))];
    for (int at = cut[stage].first; at <= cut[stage].last; ++at) {
      const LayerCost& layer = costs.layers()[static_cast<size_t>(at)];
      tail += layer.update_seconds + layer.tied_sum_seconds + layer.sync_seconds;
    }
  }
  return *std::max_element(tails.begin(), tails.end());
}

TEST(FloorsOfMemory, AreBelowAnyOrderOfAnyCut) {
  constexpr uint64_t kTrials = Trials(150, /*sanitized=*/20);
  int compared = 0, above_work = 0, step_above_work = 0;
  for (uint64_t seed = 0; seed < kTrials; ++seed) {
    Random random(seed);
    const CostTable costs = *CostTable::Create(RandomModel(random, 2 + Below(random, 4)));
    const Workload workload = RandomWorkload(random, costs);
    const double floor = FillFloor(workload), of_step = StepFloor(workload);
    Workload roomy = workload;
    roomy.machines.memory_limit = 1'000'000;
    const double work = StepFloor(roomy) * (1 + 1e-9);
    above_work += floor > work;
    step_above_work += of_step > work && of_step > floor;
    for (int chunks = 1; chunks * workload.devices <= costs.layer_count(); ++chunks) {
      Timetable shape;
      shape.placement = random() % 2 == 0 ? Placement::Looped(workload.devices, chunks)
                                          : Placement::V(workload.devices, chunks);
      shape.micro_batches = workload.micro_batches;
      ForEachPartition(costs.layer_count(), chunks * workload.devices, [&](const Partition& cut) {
        StageAssignment assignment{cut, {}};
        for (size_t stage = 0; stage < cut.size(); ++stage) {
          assignment.recompute.push_back(workload.policies[random() % workload.policies.size()]);
        }
        const double seconds = BestOrder(workload, shape, assignment);
        if (seconds == kNothing) return;
        ++compared;
        const double step = seconds + LongestTail(costs, shape.placement, cut);
        EXPECT_LE(floor, step * (1 + kProofTolerance)) << "seed " << seed;
        EXPECT_LE(of_step, step * (1 + kProofTolerance)) << "seed " << seed;
      });
    }
  }
  RecordProperty("compared", compared);
  RecordProperty("above_work", above_work);
  RecordProperty("step_above_work", step_above_work);
  EXPECT_GT(compared, static_cast<int>(kTrials));
  EXPECT_GT(above_work, static_cast<int>(kTrials) / 20);
  EXPECT_GT(step_above_work, static_cast<int>(kTrials) / 20);
}

// Two ranks of two layers each, 50 micro-batches, memory for the activations of three layers beside
// the parameters. The fullest rank works 50 * 2 * 3 = 300. The first gradient arrives after 4
// seconds, when the rank has done 3 F: it waits at least 1 second. The last gradient takes 4
// seconds to come up; the rank still has 3 I and W, 6 seconds: it need not wait.
TEST(FillFloor, AddsWhatTheFullestRankWaits) {
  LayerCost layer;
  layer.forward_seconds = layer.input_grad_seconds = layer.weight_grad_seconds = 1;
  layer.parameter_bytes = 10;
  layer.saved_bytes = {5, 5, 5};
  layer.weight_grad_bytes = 5;
  const CostTable costs = *CostTable::Create(std::vector<LayerCost>(4, layer));
  Workload workload;
  workload.machines.costs = std::make_shared<const CostTable>(costs);
  workload.devices = 2;
  workload.micro_batches = 50;
  workload.machines.memory_limit = 2 * 10 + 3 * 5;
  EXPECT_DOUBLE_EQ(FillFloor(workload), 301);
  EXPECT_DOUBLE_EQ(StepFloor(workload), 301);
  // Memory for one: before the first gradient 1 F, after the last one 1 I and W.
  workload.machines.memory_limit = 2 * 10 + 1 * 5;
  EXPECT_DOUBLE_EQ(FillFloor(workload), 300 + (4 - 1) + (4 - 2));
  // Its updates, 3 seconds for each layer, come after its last action; but that may be before the
  // last gradient has come up, so they do not count beside the second wait.
  layer.update_seconds = 3;
  workload.machines.costs =
      std::make_shared<const CostTable>(*CostTable::Create(std::vector<LayerCost>(4, layer)));
  EXPECT_DOUBLE_EQ(FillFloor(workload), 300 + (4 - 1) + 2 * 3);
  // With memory for all, one of the two ranks starts when a layer has gone forward.
  workload.machines.memory_limit = 1'000;
  EXPECT_DOUBLE_EQ(StepFloor(workload), 1 + 300 + 2 * 3);
}

// Five layers on two ranks: one has three, and their updates.
TEST(StepFloor, CountsTheUpdatesOfTheFullestRank) {
  LayerCost layer;
  layer.forward_seconds = layer.input_grad_seconds = layer.weight_grad_seconds = 1;
  layer.update_seconds = 2;
  const CostTable costs = *CostTable::Create(std::vector<LayerCost>(5, layer));
  Workload workload;
  workload.machines.costs = std::make_shared<const CostTable>(costs);
  workload.devices = 2;
  workload.micro_batches = 10;
  EXPECT_DOUBLE_EQ(StepFloor(workload), 3 * (10 * 3 + 2));
}

// Eight layers on three ranks. One has three; where no rank has four, a second one has three, too,
// and the later of the two starts when the first layer has gone forward.
TEST(StepFloor, CountsWhatTheLaterOfTwoFullRanksWaits) {
  LayerCost layer;
  layer.forward_seconds = 2;
  layer.input_grad_seconds = layer.weight_grad_seconds = 1;
  Workload workload;
  workload.devices = 3;
  workload.micro_batches = 10;
  const auto floor_of = [&](int layers) {
    workload.machines.costs = std::make_shared<const CostTable>(
        *CostTable::Create(std::vector<LayerCost>(static_cast<size_t>(layers), layer)));
    return StepFloor(workload);
  };
  EXPECT_DOUBLE_EQ(floor_of(7), 3 * 40);
  EXPECT_DOUBLE_EQ(floor_of(8), 2 + 3 * 40);
  EXPECT_DOUBLE_EQ(floor_of(9), 4 + 3 * 40);
  EXPECT_DOUBLE_EQ(floor_of(10), 4 * 40);
}

// Every way to give things to ranks that start one after the other.
double LeastOfAll(const std::vector<double>& sizes, const std::vector<double>& starts) {
  double least = kNothing;
  const auto ranks = static_cast<int>(starts.size());
  std::vector<int> rank_of(sizes.size());
  for (bool more = true; more;) {
    std::vector<double> sums(starts.size());
    for (size_t i = 0; i < sizes.size(); ++i) sums[static_cast<size_t>(rank_of[i])] += sizes[i];
    double most = 0;
    for (size_t rank = 0; rank < sums.size(); ++rank) {
      if (sums[rank] > 0) most = std::max(most, starts[rank] + sums[rank]);
    }
    least = std::min(least, most);
    more = false;
    for (int& rank : rank_of) {
      rank = rank + 1 < ranks ? rank + 1 : 0;
      more = rank != 0;
      if (more) break;
    }
  }
  return least;
}

TEST(FullestRankWithStart, IsBelowEveryAssignment) {
  int above_without = 0, equal = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    std::vector<double> sizes, starts = {0};
    const int count = 1 + Below(random, 7), ranks = 1 + Below(random, 3);
    for (int i = 0; i < count; ++i) sizes.push_back(5 + Below(random, 4));
    for (int rank = 1; rank < ranks; ++rank) starts.push_back(starts.back() + Below(random, 3));
    const double bound = FullestRankWithStart(sizes, starts);
    const double least = LeastOfAll(sizes, starts);
    EXPECT_LE(bound, least) << "seed " << seed;
    above_without += bound > FullestRank(sizes, ranks).sum;
    equal += bound == least;
  }
  EXPECT_GT(above_without, 40);
  EXPECT_GT(equal, 100);
}

}  // namespace
}  // namespace sluice
