#include "partitioner/search/local_search.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "partitioner/bounds/known_chains.h"
#include "partitioner/bounds/layer_choices.h"
#include "partitioner/bounds/step_floor.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/question/plan_request.h"
#include "partitioner/planning/race/planner.h"
#include "partitioner/search/partition_answer.h"
#include "partitioner/search/search_options.h"
#include "tests/partitioner/brute_force.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

std::vector<LayerChoice> ChoicesOf(const PartitionProblem& problem,
                                   const StageAssignment& assignment) {
  std::vector<LayerChoice> choices;
  for (int stage = 0; stage < problem.stages(); ++stage) {
    const LayerRange& range = assignment.partition[stage];
    choices.push_back(
        MakeChoice(problem, stage, range.first, range.last + 1, assignment.recompute[stage]));
  }
  return choices;
}

// The first assignment that fits, which is rarely a good one.
std::optional<StageAssignment> FirstThatFits(const PartitionProblem& problem) {
  std::optional<StageAssignment> first;
  BruteForce(problem, [&](const StageAssignment& assignment) {
    if (!first) first = assignment;
    return 0.0;
  });
  return first;
}

TEST(LocalSearch, KeepsToMemoryAndOnlyEverShortensTheStep) {
  constexpr uint64_t kTrials = Trials(2'000, /*sanitized=*/300);
  int compared = 0, shorter = 0, best_of_all = 0;
  for (uint64_t seed = 0; seed < kTrials; ++seed) {
    RandomCase test(seed);
    SCOPED_TRACE(test.Describe() + " seed " + std::to_string(seed));
    const std::optional<StageAssignment> start = FirstThatFits(test.problem);
    if (!start) continue;
    const double before = SimulatedSeconds(test.problem, *start);
    StepModel model = *StepModel::Compile(test.timetable);
    int64_t steps = 0;
    const TimedAssignment after = Improve(test.problem, Feasible(test.problem), {*start, before},
                                          SearchOptions().budget, &model, &steps);
    EXPECT_LE(after.seconds, before);
    EXPECT_TRUE(Fits(test.problem, after.assignment));
    EXPECT_EQ(after.assignment.partition.back().last + 1, test.problem.layer_count());
    EXPECT_NEAR(after.seconds, SimulatedSeconds(test.problem, after.assignment), 1e-9);
    EXPECT_GT(steps, 0);
    const double best = BruteForce(test.problem, [&](const StageAssignment& assignment) {
      return SimulatedSeconds(test.problem, assignment);
    });
    ++compared;
    shorter += after.seconds < before;
    best_of_all += after.seconds <= best * (1 + 1e-9);
  }
  RecordProperty("compared", compared);
  RecordProperty("best_of_all", best_of_all);
  EXPECT_GT(shorter, compared / 5);
  EXPECT_GT(best_of_all, compared / 2);
}

TEST(LocalSearch, EndsWithItsBudget) {
  RandomCase test(4);
  const std::optional<StageAssignment> start = FirstThatFits(test.problem);
  ASSERT_TRUE(start.has_value());
  StepModel model = *StepModel::Compile(test.timetable);
  int64_t steps = 0;
  const double before = SimulatedSeconds(test.problem, *start);
  const TimedAssignment after =
      Improve(test.problem, Feasible(test.problem), {*start, before}, 0, &model, &steps);
  EXPECT_EQ(after.seconds, before);
}

TEST(KnownChains, SayNoMoreThanASimulationAndAddUpTheirChanges) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    RandomCase test(seed);
    const std::optional<StageAssignment> first = FirstThatFits(test.problem);
    if (!first) continue;
    StepModel model = *StepModel::Compile(test.timetable);
    const StepCosts costs = ToStepCosts(test.problem, PriceStages(test.problem, *first));
    KnownChains chains(test.problem.stages());
    chains.Add(model.CriticalChain(costs));
    for (const ChainCounts& chain : model.RankChains(costs, 2)) chains.Add(chain);
    std::vector<LayerChoice> choices = ChoicesOf(test.problem, *first);
    // The first chain is the one that decides this step.
    EXPECT_NEAR(chains.Seconds(choices)[0], model.Makespan(costs), 1e-9);
    BruteForce(test.problem, [&](const StageAssignment& other) {
      const std::vector<LayerChoice> changed = ChoicesOf(test.problem, other);
      std::vector<double> seconds = chains.Seconds(choices);
      for (int stage = 0; stage < test.problem.stages(); ++stage) {
        chains.AddChange(stage, choices[stage], changed[stage], seconds.data());
      }
      const double step = SimulatedSeconds(test.problem, other);
      for (int chain = 0; chain < chains.size(); ++chain) {
        EXPECT_NEAR(seconds[chain], chains.Seconds(changed)[chain], 1e-9);
        EXPECT_LE(seconds[chain], step + 1e-9);
      }
      return step;
    });
  }
}

// Seconds of a plan that MakePlan proves to be the best, with little memory.
TEST(StepFloor, CountsWhatKeepingActivationsTakes) {
  constexpr uint64_t kTrials = Trials(1'500, /*sanitized=*/200);
  int planned = 0, higher = 0;
  for (uint64_t seed = 0; seed < kTrials; ++seed) {
    Random random(seed);
    std::vector<LayerCost> layers = RandomLayers(random, 2 + Below(random, 6));
    for (LayerCost& layer : layers) {
      layer.parameter_bytes = layer.tied_bytes = 0;
      layer.workspace_bytes = layer.forward_workspace_bytes = 0;
    }
    const CostTable costs = *CostTable::Create(layers);
    PlanRequest request;
    request.machines.costs = std::make_shared<const CostTable>(costs);
    request.devices = 1 + Below(random, std::min(4, costs.layer_count()));
    request.micro_batches = 4 + Below(random, 12);
    request.machines.link = RandomLink(random);
    if (random() % 2 == 0) {
      request.policies = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
    }
    const double without = StepFloor(request);
    request.machines.memory_limit = 60 + Below(random, 400);
    const double floor = StepFloor(request);
    EXPECT_GE(floor, without);
    const absl::StatusOr<Plan> plan = MakePlan(request);
    if (!plan.ok()) continue;
    ++planned;
    higher += floor > without * (1 + 1e-9);
    EXPECT_LE(floor, plan->step_seconds * (1 + kProofTolerance)) << "seed " << seed;
  }
  RecordProperty("planned", planned);
  RecordProperty("higher", higher);
  EXPECT_GT(planned, static_cast<int>(kTrials) / 4);
  EXPECT_GT(higher, planned / 50);
}

}  // namespace
}  // namespace sluice
