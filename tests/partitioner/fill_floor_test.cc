#include "partitioner/bounds/fill_floor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

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
  workload.machines.memory_limit = 1'000;
  EXPECT_DOUBLE_EQ(StepFloor(workload), 300 + 2 * 3);
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

}  // namespace
}  // namespace sluice
