#include "partitioner/bounds/rank_columns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/bounds/neighbour_columns.h"
#include "partitioner/bounds/step_model.h"
#include "partitioner/partition_problem.h"
#include "partitioner/search/search_options.h"
#include "tests/partitioner/brute_force.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

// The costs of a random assignment, so that the chains found with them are arbitrary.
StepCosts RandomStep(const PartitionProblem& problem, Random& random) {
  StageAssignment assignment;
  std::vector<int> cuts;
  for (int cut = 1; cut < problem.layer_count(); ++cut) cuts.push_back(cut);
  std::shuffle(cuts.begin(), cuts.end(), random);
  cuts.resize(problem.stages() - 1);
  std::sort(cuts.begin(), cuts.end());
  cuts.push_back(problem.layer_count());
  int first = 0;
  for (const int end : cuts) {
    assignment.partition.push_back({first, end - 1});
    assignment.recompute.push_back(
        problem.policies[Below(random, static_cast<int>(problem.policies.size()))]);
    first = end;
  }
  return ToStepCosts(problem, PriceStages(problem, assignment));
}

// One set of columns for each of a few slowdowns, as in the search.
std::vector<std::vector<ChainCounts>> RandomChains(const PartitionProblem& problem,
                                                   Random& random) {
  StepModel model = *StepModel::Compile(*problem.timetable);
  std::vector<std::vector<ChainCounts>> chains;
  for (const double slowdown : {1.01, 1.5, 8.0}) {
    chains.push_back(model.RankChains(RandomStep(problem, random), slowdown));
  }
  return chains;
}

TEST(RankColumns, NeverBoundAboveTheBestOfAllAssignments) {
  constexpr uint64_t kTrials = Trials(3'000, /*sanitized=*/150);
  int unusable = 0, compared = 0, tight = 0, near = 0, tighter_than_choices = 0;
  for (uint64_t seed = 0; seed < kTrials; ++seed) {
    RandomCase test(seed);
    SCOPED_TRACE(test.Describe() + " seed " + std::to_string(seed));
    const double best = BruteForce(test.problem, [&](const StageAssignment& assignment) {
      return SimulatedSeconds(test.problem, assignment);
    });
    const Feasible feasible(test.problem);
    const LayerChoices choices(test.problem, feasible, kNothing);
    const RankColumns columns(test.problem, feasible, choices,
                              RandomChains(test.problem, test.random));
    if (!columns.usable()) {  // a rank with three stages, and every policy at each
      ++unusable;
      continue;
    }
    const double bound = columns.LeastSeconds(SearchOptions().budget);
    EXPECT_GE(bound, 0);
    if (best == kNothing || best == 0) continue;
    EXPECT_LE(bound, best * (1 + 1e-9));
    EXPECT_EQ(columns.LeastSeconds(0), 0) << "a budget of nothing proves nothing";
    ++compared;
    tight += bound > best * (1 - 1e-6);
    near += bound > best * 0.8;
    tighter_than_choices += bound > choices.LeastBound(nullptr);
  }
  RecordProperty("compared", compared);
  RecordProperty("tight", tight);
  RecordProperty("near", near);
  RecordProperty("tighter_than_choices", tighter_than_choices);
  EXPECT_LT(unusable, compared / 10);
  // A bound that is always 0 would pass the tests up to here.
  EXPECT_GT(tight, compared / 3);
  EXPECT_GT(near, compared / 2);
  EXPECT_GT(tighter_than_choices, compared / 4);
}

TEST(NeighbourColumns, NeverBoundAboveTheBestOfAllAssignments) {
  constexpr uint64_t kTrials = Trials(3'000, /*sanitized=*/150);
  int compared = 0, tight = 0, above_ranks = 0, as_good = 0;
  for (uint64_t seed = 0; seed < kTrials; ++seed) {
    RandomCase test(seed);
    SCOPED_TRACE(test.Describe() + " seed " + std::to_string(seed));
    const Feasible feasible(test.problem);
    const LayerChoices choices(test.problem, feasible, kNothing);
    const RankColumns columns(test.problem, feasible, choices,
                              RandomChains(test.problem, test.random));
    NeighbourColumns neighbours(columns, test.problem.layer_count());
    if (!neighbours.usable()) continue;
    const double best = BruteForce(test.problem, [&](const StageAssignment& assignment) {
      return SimulatedSeconds(test.problem, assignment);
    });
    if (best == kNothing || best == 0) continue;
    StepModel model = *StepModel::Compile(*test.problem.timetable);
    EXPECT_EQ(neighbours.LeastSeconds(), 0) << "without chains nothing is proved";
    double before = 0;
    for (const double slowdown : {4.0, 1.0, 1.2}) {
      neighbours.Add(model.PairChains(RandomStep(test.problem, test.random), slowdown));
      const double bound = neighbours.LeastSeconds();
      EXPECT_GE(bound, before) << "chains only ever raise it";
      EXPECT_LE(bound, best * (1 + 1e-9));
      before = bound;
    }
    ++compared;
    tight += before > best * (1 - 1e-6);
    above_ranks += before > columns.LeastSeconds(SearchOptions().budget) * (1 + 1e-6);
    const std::optional<StageAssignment> assignment = neighbours.Assignment(before);
    ASSERT_TRUE(assignment.has_value());
    ASSERT_EQ(static_cast<int>(assignment->partition.size()), test.problem.stages());
    EXPECT_EQ(assignment->partition.back().last + 1, test.problem.layer_count());
    as_good += SimulatedSeconds(test.problem, *assignment) <= best * (1 + 1e-9);
  }
  RecordProperty("compared", compared);
  RecordProperty("tight", tight);
  RecordProperty("above_ranks", above_ranks);
  EXPECT_GT(compared, static_cast<int>(kTrials) / 4);
  EXPECT_GT(tight, compared / 10);
  EXPECT_GT(above_ranks, compared / 20);
  EXPECT_GT(as_good, compared / 10);
}

}  // namespace
}  // namespace sluice
