// The optimum, found by simulating every timetable: all orders of every rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "schedules/optimise/exact/exact.h"
#include "schedules/optimise/optimise.h"
#include "schedules/optimise/problem/problem.h"
#include "schedules/simulate/simulate.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

using Row = std::vector<Action>;

// All orders of the actions of `stages` in which each micro-batch's F comes before its I before its
// W, and each op of a stage takes the micro-batches in order.
void Enumerate(const std::vector<int>& stages, int micro_batches, Row& row,
               std::vector<Row>& rows) {
  if (row.size() == 3 * stages.size() * static_cast<size_t>(micro_batches)) {
    rows.push_back(row);
    return;
  }
  const auto count = [&](Op op, int stage) {
    return static_cast<int>(std::count_if(row.begin(), row.end(), [&](const Action& action) {
      return action.op == op && action.stage == stage;
    }));
  };
  for (int stage : stages) {
    int before = micro_batches;
    for (Op op : {Op::kForward, Op::kInputGrad, Op::kWeightGrad}) {
      const int done = count(op, stage);
      if (done < before) {
        row.push_back({.op = op, .stage = static_cast<uint16_t>(stage), .micro_batch = done});
        Enumerate(stages, micro_batches, row, rows);
        row.pop_back();
      }
      before = done;
    }
  }
}

class AllTimetables {
 public:
  explicit AllTimetables(const OptimiseRequest& request) : request_(request) {
    table_.placement = request.placement;
    table_.micro_batches = request.micro_batches;
    table_.rows.resize(request.placement.ranks());
    for (int rank = 0; rank < request.placement.ranks(); ++rank) {
      Row row;
      Enumerate(request.placement.StagesOf(rank), request.micro_batches, row,
                choices_.emplace_back());
    }
  }

  // Infinite when no order keeps the limits.
  double Best() {
    Choose(0);
    return best_;
  }

 private:
  void Choose(size_t rank) {
    if (rank < choices_.size()) {
      for (const Row& row : choices_[rank]) {
        table_.rows[rank] = row;
        Choose(rank + 1);
      }
      return;
    }
    const auto run = Simulate(table_, request_.costs);
    if (!run.ok() || !KeepsLimits(*run, request_.limits)) return;
    best_ = std::min(best_, ObjectiveValue(*run, request_.objective));
  }

  const OptimiseRequest& request_;
  Timetable table_;
  std::vector<std::vector<Row>> choices_;
  double best_ = std::numeric_limits<double>::infinity();
};

class RandomRequests {
 public:
  explicit RandomRequests(uint64_t seed) : random_(seed) {}

  int Draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  OptimiseRequest Next(const Placement& placement, int micro_batches) {
    const int stages = placement.stages();
    OptimiseRequest request;
    request.placement = placement;
    request.micro_batches = micro_batches;
    request.costs = StageCosts::Uniform(stages, 1, 1, 1);
    for (int s = 0; s < stages; ++s) {
      request.costs.forward[s] = Draw(1, 9);
      request.costs.input_grad[s] = Draw(1, 9);
      request.costs.weight_grad[s] = Draw(0, 9);
      request.costs.backward[s] = request.costs.input_grad[s] + request.costs.weight_grad[s];
      if (s + 1 < stages) request.costs.send[s] = Draw(0, 5);
      request.costs.activation_bytes.push_back(Draw(3, 6));
      request.costs.weight_grad_bytes.push_back(Draw(0, 3));
    }
    for (int rank = 0; rank < placement.ranks(); ++rank) {
      const int chunks = placement.chunks();
      request.limits.activations.push_back(chunks + Draw(0, micro_batches * chunks - chunks));
      request.limits.bytes.push_back(6 * chunks + Draw(0, 3 * micro_batches * chunks));
    }
    switch (Draw(0, 3)) {
      case 0:
        request.limits.bytes.clear();
        break;
      case 1:
        request.limits.activations.clear();
        break;
      case 2:
        request.limits = {};
        break;
      default:
        break;
    }
    if (Draw(0, 2) == 0) request.objective = Objective::kSpan;
    return request;
  }

 private:
  std::mt19937_64 random_;
};

void ExpectOptimum(const OptimiseRequest& request) {
  const auto best = OptimiseTimetable(request);
  ASSERT_TRUE(best.ok()) << best.status();
  EXPECT_TRUE(best->optimal);
  EXPECT_DOUBLE_EQ(ObjectiveValue(best->run, request.objective), AllTimetables(request).Best());
}

TEST(Optimum, IsFoundAndProvedWithOneStageARank) {
  struct Size {
    int ranks, micro_batches, rounds;
  };
  RandomRequests requests(11);
  for (const auto& [ranks, micro_batches, rounds] :
       {Size{1, 4, 5}, Size{2, 2, 40}, Size{2, 3, 40}, Size{3, 2, 40}, Size{4, 2, 20},
        Size{3, 3, 2}}) {
    for (int round = 0; round < Trials(rounds, (rounds + 9) / 10); ++round) {
      ExpectOptimum(requests.Next(Placement::Looped(ranks), micro_batches));
    }
  }
}

TEST(Optimum, IsFoundAndProvedWithSeveralStagesARank) {
  RandomRequests requests(12);
  for (int round = 0; round < Trials(30, 4); ++round) {
    ExpectOptimum(requests.Next(Placement::Looped(2, 2), 1));
    ExpectOptimum(requests.Next(Placement::V(2, 2), 1));
    // Stages 0 and 2 on rank 0, stage 1 on rank 1: the smallest case in which one stage's F takes
    // the memory of another's.
    const auto mixed = Placement::FromRanks({0, 1, 0});
    ASSERT_TRUE(mixed.ok());
    if (round < 2) ExpectOptimum(requests.Next(*mixed, 2));
  }
  for (int round = 0; round < 2; ++round) ExpectOptimum(requests.Next(Placement::Looped(1, 2), 2));
}

TEST(Optimum, IsFoundAndProvedWhereStagesOfARankHaveEqualWeights) {
  RandomRequests requests(14);
  for (int round = 0; round < 30; ++round) {
    OptimiseRequest request = requests.Next(Placement::V(2, 2), 1);
    if (round < 2) request = requests.Next(Placement::Looped(1, 2), 2);
    request.costs.weight_grad.assign(request.costs.weight_grad.size(), 2);
    for (size_t s = 0; s < request.costs.backward.size(); ++s) {
      request.costs.backward[s] = request.costs.input_grad[s] + 2;
    }
    ExpectOptimum(request);
  }
}

TEST(Optimum, IsFoundAndProvedForCostsThatAreNotWholeNumbers) {
  RandomRequests requests(15);
  for (int round = 0; round < Trials(40, 4); ++round) {
    OptimiseRequest request = requests.Next(Placement::Looped(3), 2);
    for (auto* costs : {&request.costs.forward, &request.costs.input_grad,
                        &request.costs.weight_grad, &request.costs.backward, &request.costs.send}) {
      for (double& cost : *costs) cost *= 0.1;
    }
    const auto best = OptimiseTimetable(request);
    ASSERT_TRUE(best.ok()) << best.status();
    EXPECT_TRUE(best->optimal);
    const double optimum = AllTimetables(request).Best();
    EXPECT_NEAR(ObjectiveValue(best->run, request.objective), optimum, 1e-9 * optimum);
  }
}

// However few prefixes the search may look at, its bounds of the optimum hold.
TEST(Optimum, LiesBetweenTheBoundsOfASearchThatGivesUp) {
  RandomRequests requests(16);
  const optimise::Deadline never(std::nullopt);
  for (int round = 0; round < 100; ++round) {
    const bool several = round % 2 == 0;
    const OptimiseRequest request =
        several ? requests.Next(Placement::V(2, 2), 1) : requests.Next(Placement::Looped(2), 3);
    const double optimum = AllTimetables(request).Best();
    const auto problem = optimise::MakeProblem(request);
    ASSERT_TRUE(problem.ok()) << problem.status();
    for (int64_t most_prefixes : {1'001, 1'200, 1'500, 3'000}) {
      const double upper = 1.5 * optimum;
      const auto found = optimise::SearchExactly(*problem, 0, upper, most_prefixes, never);
      EXPECT_LE(found.lower, optimum * (1 + 1e-9));
      EXPECT_GE(found.better.value, optimum * (1 - 1e-9));
    }
  }
}

TEST(Optimum, IsProvedOfLargerUnevenCases) {
  RandomRequests requests(13);
  for (int round = 0; round < 24; ++round) {
    OptimiseRequest request = requests.Next(Placement::Looped(2 + round % 3), 3 + round % 4);
    request.limits = {};
    request.limits.activations.assign(request.placement.ranks(), 1 + round % 6);
    const auto best = OptimiseTimetable(request);
    ASSERT_TRUE(best.ok()) << best.status();
    EXPECT_TRUE(best->optimal) << round;
  }
}

}  // namespace
}  // namespace sluice
