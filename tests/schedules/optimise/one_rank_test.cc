// What a rank needs by itself, with the others as fast as can be, is a lower bound.
#include "schedules/optimise/problem/one_rank.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "schedules/optimise/exact/layered_search.h"
#include "schedules/optimise/problem/problem.h"
#include "schedules/optimise/problem/relaxation.h"
#include "tests/sanitizers.h"

namespace sluice::optimise {
namespace {

constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max() / 8;

OptimiseRequest UnitRequest(const Placement& placement, int micro_batches) {
  OptimiseRequest request;
  request.placement = placement;
  request.micro_batches = micro_batches;
  request.costs = StageCosts::Uniform(placement.stages(), 1, 1, 1);
  return request;
}

// The optimum for costs that are whole numbers: no order is below it, and one is below the next.
int Optimum(const Problem& problem) {
  const Relaxation relaxation(problem);
  const Deadline never(std::nullopt);
  for (int limit = 1;; ++limit) {
    const LayeredResult found = SearchLayers(problem, relaxation, limit + 0.5, kNoEnd, never);
    EXPECT_TRUE(found.exhausted);
    if (found.best.value < kNever) return limit;
  }
}

int Optimum(const OptimiseRequest& request) { return Optimum(*MakeProblem(request)); }

int OptimumOfRank(const OptimiseRequest& request, int rank) {
  const Problem cheapest = CheapestOf(*MakeProblem(request));
  return Optimum(OneRankOf(Relaxation(cheapest), rank));
}

// With no memory limit on other ranks, and no rule there that one thing is done at a time; by
// CP-SAT (OR-tools 9).
TEST(OneRank, HasTheOptimumThatAnotherSolverFound) {
  struct Case {
    Placement placement;
    int micro_batches, limit, rank, optimum;
  };
  const Case cases[] = {{Placement::V(6, 2), 6, 6, 5, 53}, {Placement::V(6, 2), 6, 6, 4, 51},
                        {Placement::V(6, 2), 6, 6, 0, 45}, {Placement::V(5, 2), 8, 5, 4, 62},
                        {Placement::V(5, 2), 8, 5, 2, 58}, {Placement::Looped(6, 2), 8, 7, 0, 62}};
  for (const Case& c : cases) {
    if (kSanitized && c.micro_batches > 6) continue;
    OptimiseRequest request = UnitRequest(c.placement, c.micro_batches);
    request.limits.activations.assign(c.placement.ranks(), 1'000);
    request.limits.activations[c.rank] = c.limit;
    EXPECT_EQ(OptimumOfRank(request, c.rank), c.optimum)
        << c.placement.ranks() << " ranks, rank " << c.rank;
  }
}

TEST(OneRank, IsTheWholeProblemWhereThereIsOne) {
  for (const int limit : {2, 3, 5}) {
    OptimiseRequest request = UnitRequest(Placement::Looped(1, 2), 4);
    request.costs.forward = {2, 3};
    request.costs.weight_grad = {4, 0};
    request.costs.backward = {5, 1};
    request.limits.activations = {limit};
    EXPECT_EQ(OptimumOfRank(request, 0), Optimum(request));
  }
}

TEST(OneRank, NeedsNoMoreThanAllRanks) {
  std::mt19937 random(23);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  int most = 0;
  for (int round = 0; round < Trials(400, 20); ++round) {
    const Placement placement = round % 3 == 0   ? Placement::Looped(3)
                                : round % 3 == 1 ? Placement::V(2, 2)
                                                 : Placement::Looped(2, 2);
    OptimiseRequest request = UnitRequest(placement, draw(1, 3));
    StageCosts& costs = request.costs;
    for (int s = 0; s < placement.stages(); ++s) {
      costs.forward[s] = draw(1, 5);
      costs.input_grad[s] = draw(1, 5);
      costs.weight_grad[s] = draw(0, 5);
      costs.backward[s] = costs.input_grad[s] + costs.weight_grad[s] - draw(0, round % 2);
      if (s + 1 < placement.stages()) costs.send[s] = draw(0, 4);
      costs.activation_bytes.push_back(draw(2, 4));
      costs.weight_grad_bytes.push_back(draw(0, 2));
    }
    for (int rank = 0; rank < placement.ranks(); ++rank) {
      request.limits.activations.push_back(placement.chunks() + draw(0, 2));
      request.limits.bytes.push_back(4 * placement.chunks() + draw(0, 6));
    }
    if (draw(0, 2) == 0) request.objective = Objective::kSpan;
    const int optimum = Optimum(request);
    for (int rank = 0; rank < placement.ranks(); ++rank) {
      const int own = OptimumOfRank(request, rank);
      EXPECT_LE(own, optimum) << "round " << round << ", rank " << rank;
      most += own == optimum ? 1 : 0;
    }
  }
  // It says much: for some rank it is often all there is to know.
  EXPECT_GT(most, 0);
}

}  // namespace
}  // namespace sluice::optimise
