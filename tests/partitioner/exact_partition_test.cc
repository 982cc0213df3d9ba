#include "partitioner/search/exact_partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "partitioner/partition_problem.h"
#include "partitioner/search/partition_answer.h"
#include "partitioner/search/search_options.h"
#include "tests/partitioner/brute_force.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

TEST(ExactPartition, IsAsGoodAsTheBestOfAllAssignments) {
  constexpr uint64_t kTrials = Trials(5'000, /*sanitized=*/2'500);
  int infeasible = 0, limited = 0;
  for (uint64_t seed = 0; seed < kTrials; ++seed) {
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
    limited += test.problem.machines.memory_limit.has_value();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(answer->optimal);
    EXPECT_TRUE(Fits(test.problem, answer->assignment));
    EXPECT_NEAR(answer->seconds, SimulatedSeconds(test.problem, answer->assignment), 1e-9);
    EXPECT_NEAR(answer->seconds, best, 1e-7);
    EXPECT_NEAR(answer->lower_bound, best, 1e-7);
  }
  // The cases are useful only if memory limits both exclude assignments and leave some.
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
        most = std::max(most, 2.0 * static_cast<double>(stages[s].output_bytes) /
                                  test.problem.LinkAfter(static_cast<int>(s)).bandwidth);
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
  slow.problem.machines.link.bandwidth = 0;
  EXPECT_EQ(FindExactPartition(slow.problem).status().code(), absl::StatusCode::kInvalidArgument);
  RandomCase small(3);
  small.problem.machines.memory_limit = 0;
  EXPECT_EQ(FindExactPartition(small.problem).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ExactPartition, RefusesMoreBytesThanCanBeCounted) {
  const auto layers_of = [](int64_t bytes) {
    LayerCost layer;
    layer.saved_bytes = {bytes, 0, 0};
    return std::vector<LayerCost>(4, layer);
  };
  EXPECT_THAT(std::string(CostTable::Create(layers_of(int64_t{1} << 59)).status().message()),
              testing::HasSubstr("micro-batches smaller"));
  const auto costs = *CostTable::CreateShared(layers_of(int64_t{1} << 57));
  const auto find = [&](int micro_batches) {
    const Timetable timetable =
        *GenerateSchedule("gpipe", {.ranks = 2, .micro_batches = micro_batches});
    PartitionProblem problem;
    problem.machines.costs = costs;
    problem.timetable = &timetable;
    return FindExactPartition(problem).status();
  };
  EXPECT_TRUE(find(8).ok());
  EXPECT_THAT(std::string(find(9).message()), testing::HasSubstr("smaller or fewer"));
}

}  // namespace
}  // namespace sluice
