#include "partitioner/bounds/step_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "partitioner/bounds/chain_counts.h"
#include "partitioner/memory/in_flight.h"
#include "partitioner/step_costs.h"
#include "schedules/simulate/simulate.h"
#include "tests/partitioner/random_chain.h"

namespace sluice {
namespace {

StepCosts RandomCosts(Random& random, int stages) {
  std::uniform_real_distribution<double> seconds(0, 3);
  StepCosts costs;
  for (int s = 0; s < stages; ++s) {
    costs.forward.push_back(seconds(random));
    costs.input_grad.push_back(seconds(random));
    costs.weight_grad.push_back(seconds(random));
    costs.backward.push_back(costs.input_grad[s] + costs.weight_grad[s]);
    costs.tail.push_back(random() % 2 == 0 ? 0 : 4 * seconds(random));
    costs.activation_bytes.push_back(1 + Below(random, 100));
    costs.weight_grad_bytes.push_back(Below(random, static_cast<int>(costs.activation_bytes[s])));
    if (s + 1 < stages) costs.send.push_back(seconds(random));
  }
  return costs;
}

TEST(StepModel, AgreesWithTheSimulator) {
  Random random(7);
  for (int trial = 0; trial < 1000; ++trial) {
    const Timetable timetable = RandomTimetable(random, 12);
    SCOPED_TRACE(timetable.name);
    absl::StatusOr<StepModel> model = StepModel::Compile(timetable);
    ASSERT_TRUE(model.ok()) << model.status();
    for (int repeat = 0; repeat < 3; ++repeat) {
      const StepCosts costs = RandomCosts(random, timetable.placement.stages());
      const double expected = SimulatedSeconds(timetable, costs);
      EXPECT_NEAR(model->Makespan(costs), expected, 1e-9 * expected);
    }
  }
}

TEST(StepModel, TheCriticalChainTakesTheWholeStepAndNoOtherCostsShorten) {
  Random random(8);
  for (int trial = 0; trial < 1000; ++trial) {
    const Timetable timetable = RandomTimetable(random, 12);
    SCOPED_TRACE(timetable.name);
    StepModel model = *StepModel::Compile(timetable);
    const StepCosts costs = RandomCosts(random, timetable.placement.stages());
    const ChainCounts chain = model.CriticalChain(costs);
    EXPECT_NEAR(chain.Seconds(costs), model.Makespan(costs), 1e-9);
    const StepCosts other = RandomCosts(random, timetable.placement.stages());
    EXPECT_LE(chain.Seconds(other), model.Makespan(other) + 1e-9);
  }
}

TEST(StepModel, EachRanksChainIsOneThatNoCostsShorten) {
  Random random(10);
  for (int trial = 0; trial < 1000; ++trial) {
    const Timetable timetable = RandomTimetable(random, 12);
    SCOPED_TRACE(timetable.name);
    StepModel model = *StepModel::Compile(timetable);
    const StepCosts costs = RandomCosts(random, timetable.placement.stages());
    // Without slowdowns, the longest chain is as long as the step.
    double longest = 0;
    for (const ChainCounts& chain : model.RankChains(costs, 1)) {
      EXPECT_LE(chain.Seconds(costs), model.Makespan(costs) + 1e-9);
      longest = std::max(longest, chain.Seconds(costs));
    }
    EXPECT_NEAR(longest, model.Makespan(costs), 1e-9);
    const StepCosts other = RandomCosts(random, timetable.placement.stages());
    for (const ChainCounts& chain : model.RankChains(costs, 3)) {
      EXPECT_LE(chain.Seconds(other), model.Makespan(other) + 1e-9);
    }
  }
}

TEST(StepModel, ChainsThroughTwoRanksAreChainsAndNoShorterThanThroughOne) {
  Random random(8);
  for (int trial = 0; trial < 500; ++trial) {
    const Timetable timetable = RandomTimetable(random, 12);
    if (timetable.placement.ranks() < 2) continue;
    SCOPED_TRACE(timetable.name);
    StepModel model = *StepModel::Compile(timetable);
    const StepCosts costs = RandomCosts(random, timetable.placement.stages());
    const std::vector<ChainCounts> own = model.RankChains(costs, 1);
    const std::vector<ChainCounts> pairs = model.PairChains(costs, 1);
    ASSERT_EQ(pairs.size() + 1, own.size());
    double longest = 0;
    for (size_t rank = 0; rank < pairs.size(); ++rank) {
      const double seconds = pairs[rank].Seconds(costs);
      EXPECT_LE(seconds, model.Makespan(costs) + 1e-9);
      EXPECT_GE(seconds, own[rank].Seconds(costs) - 1e-9);
      EXPECT_GE(seconds, own[rank + 1].Seconds(costs) - 1e-9);
      longest = std::max(longest, seconds);
    }
    EXPECT_NEAR(longest, model.Makespan(costs), 1e-9);
    const StepCosts other = RandomCosts(random, timetable.placement.stages());
    for (const ChainCounts& chain : model.PairChains(costs, 3)) {
      EXPECT_LE(chain.Seconds(other), model.Makespan(other) + 1e-9);
    }
  }
}

TEST(StepModel, RefusesATimetableThatNeverFinishes) {
  Timetable timetable = *GenerateSchedule("1f1b", {.ranks = 2, .micro_batches = 2});
  std::reverse(timetable.rows[0].begin(), timetable.rows[0].end());
  EXPECT_EQ(StepModel::Compile(timetable).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(InFlight, HoldsWhatTheSimulatorSeesHeld) {
  Random random(9);
  for (int trial = 0; trial < 1000; ++trial) {
    const Timetable timetable = RandomTimetable(random, 12);
    SCOPED_TRACE(timetable.name);
    const StepCosts costs = RandomCosts(random, timetable.placement.stages());
    const absl::StatusOr<Simulation> simulation = Simulate(timetable, costs);
    ASSERT_TRUE(simulation.ok()) << simulation.status();
    const InFlight in_flight(timetable);
    for (int rank = 0; rank < timetable.placement.ranks(); ++rank) {
      std::vector<RangeCost> chunks;
      for (int stage : timetable.placement.StagesOf(rank)) {
        RangeCost& chunk = chunks.emplace_back();
        chunk.activation_bytes = static_cast<int64_t>(costs.activation_bytes[stage]);
        chunk.weight_grad_bytes = static_cast<int64_t>(costs.weight_grad_bytes[stage]);
      }
      EXPECT_EQ(static_cast<double>(in_flight.PeakBytes(rank, chunks)),
                simulation->peak_bytes[rank]);
    }
  }
}

TEST(InFlight, CountsWhatStaysForWEvenWhereThatIsMoreThanWasSaved) {
  // Full recomputation: 1 byte is saved for the backward, 10 are rebuilt by I and kept until W.
  Timetable timetable;
  timetable.micro_batches = 2;
  timetable.rows = {{{Op::kForward, false, 0, 0},
                     {Op::kForward, false, 0, 1},
                     {Op::kInputGrad, false, 0, 0},
                     {Op::kInputGrad, false, 0, 1},
                     {Op::kWeightGrad, false, 0, 0},
                     {Op::kWeightGrad, false, 0, 1}}};
  RangeCost cost;
  cost.activation_bytes = 1;
  cost.weight_grad_bytes = 10;
  cost.parameter_bytes = 100;
  cost.workspace_bytes = 1000;
  EXPECT_EQ(InFlight(timetable).PeakBytes(0, {cost}), 100 + 1000 + 1 + 10);  // during the second I
  cost.forward_workspace_bytes = 1000;
  cost.activation_bytes = 20;
  EXPECT_EQ(InFlight(timetable).PeakBytes(0, {cost}), 100 + 1000 + 2 * 20);  // during the second F
  cost.forward_workspace_bytes = 900;
  EXPECT_EQ(InFlight(timetable).PeakBytes(0, {cost}), 100 + 1000 + 2 * 20);  // the first I
  cost.workspace_bytes = 900;
  cost.activation_bytes = 1;
  cost.forward_workspace_bytes = 0;
  cost.workspace_bytes = 0;
  EXPECT_EQ(InFlight(timetable).PeakBytes(0, {cost}), 100 + 2 * 10);  // after it
  EXPECT_EQ(InFlight(timetable).peak(0), 2);
}

}  // namespace
}  // namespace sluice
