// Optima of small cases that are hard to prove: several stages per rank, and memory limits so tight
// that ranks have to wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/check/validate.h"
#include "schedules/optimise/exact/exact.h"
#include "schedules/optimise/optimise.h"
#include "schedules/optimise/problem/problem.h"

namespace sluice {
namespace {

OptimiseRequest Request(const Placement& placement, int micro_batches, int limit) {
  OptimiseRequest request;
  request.placement = placement;
  request.micro_batches = micro_batches;
  request.costs = StageCosts::Uniform(placement.stages(), 1, 1, 1);
  request.limits.activations.assign(placement.ranks(), limit);
  return request;
}

void ExpectProved(const OptimiseRequest& request, double optimum) {
  const auto best = OptimiseTimetable(request);
  ASSERT_TRUE(best.ok()) << best.status();
  const absl::Status sound = ValidateTimetable(best->table);
  EXPECT_TRUE(sound.ok()) << sound;
  EXPECT_TRUE(KeepsLimits(best->run, request.limits));
  EXPECT_EQ(best->run.makespan, optimum);
  EXPECT_EQ(best->lower_bound, optimum);
  EXPECT_TRUE(best->optimal);
}

// The optima in this file were proved by CP-SAT (OR-tools 9), given the same order of micro-batches,
// precedences and limits.
struct Case {
  int ranks, micro_batches, chunks, limit;
  bool v_shaped;
  double optimum;
};

Placement PlacementOf(const Case& c) {
  return c.v_shaped ? Placement::V(c.ranks, c.chunks) : Placement::Looped(c.ranks, c.chunks);
}

TEST(SmallOptimum, IsProvedForUnitCosts) {
  constexpr Case kCases[] = {
      {4, 8, 2, 5, true, 56},  {4, 8, 2, 5, false, 57}, {4, 8, 2, 4, false, 63},
      {5, 8, 2, 6, true, 59},  {6, 6, 2, 6, true, 53},  {6, 6, 2, 6, false, 53},
      {6, 8, 2, 7, false, 62},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.ranks << " ranks, " << c.micro_batches
                                    << " micro-batches, limit " << c.limit);
    ExpectProved(Request(PlacementOf(c), c.micro_batches, c.limit), c.optimum);
  }
}

struct UnevenCase {
  Case size;
  std::vector<double> forward, input_grad, weight_grad;
};

TEST(SmallOptimum, IsProvedForUnevenCosts) {
  const UnevenCase kCases[] = {
      {{2, 4, 3, 5, false, 403},
       {11, 15, 11, 13, 8, 8},
       {10, 6, 10, 15, 11, 8},
       {9, 4, 8, 15, 14, 14}},
      {{2, 5, 2, 2, false, 393}, {9, 6, 10, 15}, {14, 8, 9, 6}, {8, 3, 6, 9}},
      {{5, 5, 2, 4, false, 516},
       {7, 15, 8, 13, 12, 11, 10, 9, 9, 10},
       {10, 6, 11, 7, 15, 9, 5, 6, 9, 15},
       {9, 11, 9, 13, 14, 11, 11, 15, 7, 7}},
      {{3, 6, 2, 4, true, 461},
       {13, 14, 14, 12, 9, 8},
       {15, 6, 14, 13, 8, 15},
       {4, 3, 6, 10, 13, 15}},
  };
  for (const UnevenCase& c : kCases) {
    SCOPED_TRACE(testing::Message() << "optimum " << c.size.optimum);
    OptimiseRequest request = Request(PlacementOf(c.size), c.size.micro_batches, c.size.limit);
    request.costs.forward = c.forward;
    request.costs.input_grad = c.input_grad;
    request.costs.weight_grad = c.weight_grad;
    for (size_t s = 0; s < c.forward.size(); ++s) {
      request.costs.backward[s] = c.input_grad[s] + c.weight_grad[s];
    }
    ExpectProved(request, c.size.optimum);
  }
}

// Where it cannot prove the optimum, the search stops in time: work is counted, not measured.
TEST(SmallOptimum, IsGivenUpAfterABoundedAmountOfWork) {
  const OptimiseRequest request = Request(Placement::V(6, 2), 12, 5);
  const auto problem = optimise::MakeProblem(request);
  ASSERT_TRUE(problem.ok()) << problem.status();
  const optimise::Deadline never(std::nullopt);
  constexpr int64_t kMostPrefixes = 20'000;
  const auto found = optimise::SearchExactly(*problem, 84, 109, kMostPrefixes, never);
  EXPECT_LE(found.prefixes, 2 * kMostPrefixes);
  EXPECT_GE(found.lower, 84);
  EXPECT_LE(found.lower, std::min(109.0, found.better.value));
}

}  // namespace
}  // namespace sluice
