#include "partitioner/exact_partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "schedules/simulate.h"
#include "tests/partitioner/random_chain.h"

namespace sluice {
namespace {

constexpr double kNothing = std::numeric_limits<double>::infinity();

double SimulatedSeconds(const PartitionProblem& problem, const StageAssignment& assignment) {
  return SimulatedSeconds(*problem.timetable,
                          ToStepCosts(problem, PriceStages(problem, assignment)));
}

// Bytes of one rank at its fullest, by walking along its row: what InFlight counts, counted again
// naively.
int64_t WalkedBytes(const Timetable& timetable, int rank, const std::vector<RangeCost>& stages) {
  int64_t held = 0;
  for (int stage : timetable.placement.StagesOf(rank)) held += stages[stage].parameter_bytes;
  int64_t most = held;
  for (const Action& action : timetable.rows[rank]) {
    const RangeCost& stage = stages[action.stage];
    if (action.op == Op::kForward) held += stage.activation_bytes;
    if (action.op != Op::kWeightGrad) most = std::max(most, held + stage.workspace_bytes);
    if (action.op == Op::kBackward || action.op == Op::kInputGrad) held -= stage.activation_bytes;
    if (action.op == Op::kInputGrad) held += stage.weight_grad_bytes;
    most = std::max(most, held);
    if (action.op == Op::kWeightGrad) held -= stage.weight_grad_bytes;
  }
  return most;
}

bool Fits(const PartitionProblem& problem, const StageAssignment& assignment) {
  if (!problem.limits_memory()) return true;
  const std::vector<RangeCost> stages = PriceStages(problem, assignment);
  for (int rank = 0; rank < problem.timetable->placement.ranks(); ++rank) {
    if (WalkedBytes(*problem.timetable, rank, stages) > problem.MemoryOf(rank)) return false;
  }
  return true;
}

// The least of `value` over every assignment that fits.
template <typename Value>
double BruteForce(const PartitionProblem& problem, const Value& value) {
  double best = kNothing;
  ForEachPartition(problem.costs->layer_count(), problem.stages(), [&](const Partition& partition) {
    ForEachRecompute(problem.policies, problem.stages(),
                     [&](const std::vector<Recompute>& recompute) {
                       const StageAssignment assignment{partition, recompute};
                       if (!Fits(problem, assignment)) return;
                       best = std::min(best, value(assignment));
                     });
  });
  return best;
}

struct RandomCase {
  explicit RandomCase(uint64_t seed) : random(seed) {
    const int layers = 1 + Below(random, 8);
    costs.emplace(*CostTable::Create(RandomLayers(random, layers)));
    timetable = RandomTimetable(random, layers);
    problem.costs = &*costs;
    problem.timetable = &timetable;
    problem.link = RandomLink(random);
    if (random() % 2 == 0) {
      problem.policies = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
    }
    if (random() % 3 != 0) problem.memory_limit = 100 + Below(random, 1500);
    if (random() % 4 == 0) MakeDevicesDiffer(layers);
  }
  // Devices that are faster or slower, larger or smaller than others, on links of their own.
  void MakeDevicesDiffer(int layers) {
    const int ranks = timetable.placement.ranks();
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<LayerCost> priced = costs->layers();
      for (int i = 0; i < layers; ++i) {
        const double slower = 0.5 + Below(random, 4);
        priced[i].forward_seconds *= slower;
        priced[i].input_grad_seconds *= slower;
        priced[i].weight_grad_seconds *= slower;
      }
      tables.push_back(*CostTable::Create(priced));
    }
    for (const CostTable& table : tables) problem.rank_costs.push_back(&table);
    for (int stage = 0; stage + 1 < problem.stages(); ++stage) {
      problem.links.push_back(RandomLink(random));
    }
    for (int rank = 0; rank < ranks && problem.memory_limit; ++rank) {
      problem.rank_memory.push_back(100 + Below(random, 1500));
    }
  }
  std::string Describe() const {
    return timetable.name + " ranks " + std::to_string(timetable.placement.ranks()) + " stages " +
           std::to_string(problem.stages()) + " micro-batches " +
           std::to_string(timetable.micro_batches) + " layers " +
           std::to_string(costs->layer_count());
  }
  Random random;
  std::optional<CostTable> costs;
  std::deque<CostTable> tables;  // [rank]
  Timetable timetable;
  PartitionProblem problem;
};

TEST(ExactPartition, IsAsGoodAsTheBestOfAllAssignments) {
  int infeasible = 0, limited = 0;
  for (uint64_t seed = 0; seed < 2500; ++seed) {
    RandomCase test(seed);
    SCOPED_TRACE(test.Describe() + " seed " + std::to_string(seed));
    const double best = BruteForce(test.problem, [&](const StageAssignment& assignment) {
      return SimulatedSeconds(test.problem, assignment);
    });
    const absl::StatusOr<PartitionAnswer> answer = FindExactPartition(test.problem);
    if (best == kNothing) {
      ++infeasible;
      EXPECT_EQ(answer.status().code(), absl::StatusCode::kNotFound) << answer.status();
      continue;
    }
    limited += test.problem.memory_limit.has_value();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(answer->optimal);
    EXPECT_TRUE(Fits(test.problem, answer->assignment));
    EXPECT_NEAR(answer->seconds, SimulatedSeconds(test.problem, answer->assignment), 1e-9);
    EXPECT_NEAR(answer->seconds, best, 1e-7);
    EXPECT_NEAR(answer->lower_bound, best, 1e-7);
  }
  // The cases are worth something only if limits both bite and leave something.
  EXPECT_GT(infeasible, 100);
  EXPECT_GT(limited, 500);
}

TEST(ExactPartition, NeverClaimsMoreThanItProvedWhenTheBudgetEnds) {
  int unproved = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomCase test(seed);
    const absl::StatusOr<PartitionAnswer> exact = FindExactPartition(test.problem);
    if (!exact.ok()) continue;
    for (int64_t budget : {0, 50, 500, 5000}) {
      SCOPED_TRACE(test.Describe() + " budget " + std::to_string(budget));
      SearchOptions options;
      options.budget = budget;
      const absl::StatusOr<PartitionAnswer> answer = FindExactPartition(test.problem, options);
      if (!answer.ok()) {
        EXPECT_EQ(answer.status().code(), absl::StatusCode::kDeadlineExceeded);
        continue;
      }
      EXPECT_LE(answer->lower_bound, exact->seconds + 1e-7);
      EXPECT_GE(answer->seconds, exact->seconds - 1e-7);
      EXPECT_TRUE(Fits(test.problem, answer->assignment));
      if (answer->optimal) {
        EXPECT_NEAR(answer->seconds, exact->seconds, 1e-7);
      }
      unproved += !answer->optimal;
    }
  }
  EXPECT_GT(unproved, 20);
}

TEST(ExactPartition, StopsAtACutoffThatNothingBeats) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomCase test(seed);
    const absl::StatusOr<PartitionAnswer> exact = FindExactPartition(test.problem);
    if (!exact.ok() || exact->seconds == 0) continue;
    SCOPED_TRACE(test.Describe());
    SearchOptions options;
    options.cutoff = exact->seconds / 2;
    const absl::StatusOr<PartitionAnswer> above = FindExactPartition(test.problem, options);
    if (above.ok()) {
      EXPECT_EQ(above->lower_bound, options.cutoff);
      EXPECT_FALSE(above->optimal);
    } else {
      EXPECT_EQ(above.status().code(), absl::StatusCode::kNotFound);
    }
    options.cutoff = exact->seconds * 2;
    EXPECT_NEAR(FindExactPartition(test.problem, options)->seconds, exact->seconds, 1e-7);
  }
}

TEST(BottleneckPartition, IsAsGoodAsTheBestOfAllAssignments) {
  int compared = 0;
  for (uint64_t seed = 0; seed < 2500; ++seed) {
    RandomCase test(seed);
    if (test.timetable.placement.chunks() > 1) continue;
    SCOPED_TRACE(test.Describe() + " seed " + std::to_string(seed));
    // Written out again: the largest stage, and twice the message over each boundary.
    const double best = BruteForce(test.problem, [&](const StageAssignment& assignment) {
      double most = 0;
      const std::vector<RangeCost> stages = PriceStages(test.problem, assignment);
      for (size_t s = 0; s < stages.size(); ++s) {
        most = std::max(most, stages[s].forward + stages[s].input_grad + stages[s].weight_grad);
        if (s + 1 == stages.size()) continue;
        most = std::max(
            most, 2.0 * static_cast<double>(stages[s].output_bytes) / test.problem.LinkAfter(static_cast<int>(s)).bandwidth);
      }
      return most;
    });
    const absl::StatusOr<PartitionAnswer> answer = FindBottleneckPartition(test.problem);
    if (best == kNothing) {
      EXPECT_EQ(answer.status().code(), absl::StatusCode::kNotFound);
      continue;
    }
    ++compared;
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_NEAR(answer->seconds, best, 1e-9);
    EXPECT_NEAR(BottleneckSeconds(test.problem, answer->assignment), best, 1e-9);
    EXPECT_TRUE(Fits(test.problem, answer->assignment));
  }
  EXPECT_GT(compared, 800);
}

TEST(ExactPartition, RefusesProblemsThatMakeNoSense) {
  RandomCase test(1);
  const Timetable timetable = *GenerateSchedule("1f1b", {.ranks = 9, .micro_batches = 2});
  test.problem.timetable = &timetable;
  EXPECT_THAT(std::string(FindExactPartition(test.problem).status().message()),
              testing::HasSubstr("9 stages for"));
  RandomCase slow(2);
  slow.problem.link.bandwidth = 0;
  EXPECT_EQ(FindExactPartition(slow.problem).status().code(), absl::StatusCode::kInvalidArgument);
  RandomCase small(3);
  small.problem.memory_limit = 0;
  EXPECT_EQ(FindExactPartition(small.problem).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice
