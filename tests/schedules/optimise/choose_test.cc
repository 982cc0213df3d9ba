// Cutting stages finer, and the trade-off between memory and time.
#include "schedules/optimise/choose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "schedules/check/validate.h"
#include "schedules/optimise/optimise.h"

namespace sluice {
namespace {

constexpr double kSameSum = 1e-12;

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

OptimiseRequest Uneven(int micro_batches) {
  OptimiseRequest request;
  request.placement = Placement::Looped(3);
  request.micro_batches = micro_batches;
  request.costs = StageCosts::Uniform(3, 4, 5, 3, 1);
  request.costs.forward = {4, 6, 5};
  request.costs.send = {1, 2};
  request.costs.activation_bytes = {8, 12, 10};
  request.effort = 0.1;
  return request;
}

TEST(SplitStages, KeepsTheWorkOfEveryStage) {
  const StageCosts whole = Uneven(1).costs;
  const StageCosts split = SplitStages(whole, 2);
  EXPECT_EQ(split.forward, (std::vector<double>{2, 2, 3, 3, 2.5, 2.5}));
  EXPECT_EQ(split.activation_bytes, (std::vector<double>{4, 4, 6, 6, 5, 5}));
  EXPECT_NEAR(Sum(split.backward), Sum(whole.backward), kSameSum);
  // An edge inside a stage costs as much as the most expensive given edge.
  EXPECT_EQ(split.send, (std::vector<double>{2, 1, 2, 2, 2}));
  EXPECT_TRUE(CheckCosts(split, 6).ok());
}

TEST(SplitStages, WorksForOneStage) {
  const StageCosts split = SplitStages(StageCosts::Uniform(1, 2, 2, 2), 4);
  EXPECT_TRUE(CheckCosts(split, 4).ok());
}

TEST(ChooseTimetable, IsAsGoodAsTheBestCut) {
  OptimiseRequest request = Uneven(6);
  request.limits.activations.assign(3, 2);
  const std::vector<Cut> cuts = CutsOf(3, request.costs, 2);
  ASSERT_EQ(cuts.size(), 3u);
  const auto chosen = ChooseTimetable(request, cuts);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_TRUE(ValidateTimetable(chosen->table).ok());
  double best = chosen->run.makespan;
  double bound = best;
  for (const Cut& cut : cuts) {
    const OptimiseRequest cut_request = RequestFor(cut, request);
    EXPECT_EQ(cut_request.limits.activations[0], 2 * cut.parts);
    const auto one = OptimiseTimetable(cut_request);
    ASSERT_TRUE(one.ok()) << one.status();
    best = std::min(best, one->run.makespan);
    bound = std::min(bound, one->lower_bound);
  }
  EXPECT_EQ(chosen->run.makespan, best);
  EXPECT_EQ(chosen->lower_bound, bound);
}

TEST(SweepMemory, NeverRisesAndKeepsEveryLimit) {
  const OptimiseRequest request = Uneven(6);
  const auto curve = SweepMemory(request, CutsOf(3, request.costs, 2), {0, 1, 2, 3, 4, 6});
  ASSERT_TRUE(curve.ok()) << curve.status();
  ASSERT_EQ(curve->size(), 5u);  // nothing fits without memory
  double before = curve->front().best.run.makespan;
  for (const TradeOff& point : *curve) {
    EXPECT_LE(point.best.run.makespan, before) << point.limit;
    EXPECT_LE(point.best.lower_bound, point.best.run.makespan);
    for (int peak : point.best.run.peak_activations) {
      EXPECT_LE(peak, point.limit * point.cut.parts);
    }
    before = point.best.run.makespan;
  }
}

TEST(SweepMemory, SaysWhenNothingFits) {
  const OptimiseRequest request = Uneven(2);
  EXPECT_EQ(SweepMemory(request, CutsOf(3, request.costs, 2), {0}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace sluice
