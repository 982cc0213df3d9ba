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
#include "schedules/optimise/problem/bounds.h"
#include "schedules/optimise/problem/problem.h"
#include "schedules/simulate/simulate.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

using Row = std::vector<Action>;

// All orders of the actions of `stages` in which each micro-batch's F comes before its I before its
// W, or before its B. `taken` is how each stage takes the micro-batches: all in one order, first F
// of all of them, then I or B, and in the same order W; or F and I in any order, and only W, also
// that of a B, in the order of their numbers, which is all that a sound timetable needs.
enum class Taken : uint8_t { kInOneOrder, kInAnyOrder };
class AllRows {
 public:
  AllRows(const std::vector<int>& stages, int micro_batches, bool whole_backwards, Taken taken)
      : stages_(stages),
        micro_batches_(micro_batches),
        whole_backwards_(whole_backwards),
        taken_(taken) {
    if (taken == Taken::kInOneOrder) Continue();
    if (taken == Taken::kInAnyOrder) ContinueInAnyOrder();
  }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  void Continue() {
    bool complete = true;
    for (int stage : stages_) {
      const std::vector<int> forwards = Done(stage, {Op::kForward});
      const std::vector<int> gradients = Done(stage, {Op::kInputGrad, Op::kBackward});
      const std::vector<int> weights = Done(stage, {Op::kWeightGrad, Op::kBackward});
      complete &= weights.size() == static_cast<size_t>(micro_batches_);
      const int next = static_cast<int>(forwards.size());
      if (next < micro_batches_) Try(Op::kForward, stage, next);
      if (gradients.size() < forwards.size()) {
        Try(Op::kInputGrad, stage, forwards[gradients.size()]);
        const bool in_order = weights.size() == gradients.size();
        if (whole_backwards_ && in_order) Try(Op::kBackward, stage, forwards[gradients.size()]);
      }
      if (weights.size() < gradients.size()) {
        Try(Op::kWeightGrad, stage, gradients[weights.size()]);
      }
    }
    if (complete) rows_.push_back(row_);
  }
  void ContinueInAnyOrder() {
    bool complete = true;
    for (int stage : stages_) {
      const std::vector<int> forwards = Done(stage, {Op::kForward});
      const std::vector<int> gradients = Done(stage, {Op::kInputGrad, Op::kBackward});
      const std::vector<int> weights = Done(stage, {Op::kWeightGrad, Op::kBackward});
      const int next = static_cast<int>(weights.size());
      complete &= next == micro_batches_;
      for (int k = 0; k < micro_batches_; ++k) {
        const bool has_gradient = std::count(gradients.begin(), gradients.end(), k) > 0;
        if (std::count(forwards.begin(), forwards.end(), k) == 0) {
          Try(Op::kForward, stage, k);
        } else if (!has_gradient) {
          Try(Op::kInputGrad, stage, k);
          if (whole_backwards_ && k == next) Try(Op::kBackward, stage, k);
        } else if (k == next) {
          Try(Op::kWeightGrad, stage, k);
        }
      }
    }
    if (complete) rows_.push_back(row_);
  }
  void Try(Op op, int stage, int micro_batch) {
    row_.push_back({.op = op, .stage = static_cast<uint16_t>(stage), .micro_batch = micro_batch});
    if (taken_ == Taken::kInOneOrder) Continue();
    if (taken_ == Taken::kInAnyOrder) ContinueInAnyOrder();
    row_.pop_back();
  }
  // The micro-batches of which one of `ops` has run.
  std::vector<int> Done(int stage, const std::vector<Op>& ops) const {
    std::vector<int> done;
    for (const Action& action : row_) {
      const bool is_one = std::count(ops.begin(), ops.end(), action.op) > 0;
      if (is_one && action.stage == stage) done.push_back(action.micro_batch);
    }
    return done;
  }

  const std::vector<int>& stages_;
  const int micro_batches_;
  const bool whole_backwards_;
  const Taken taken_;
  Row row_;
  std::vector<Row> rows_;
};

class AllTimetables {
 public:
  explicit AllTimetables(const OptimiseRequest& request, Taken taken = Taken::kInOneOrder)
      : request_(request) {
    table_.placement = request.placement;
    table_.micro_batches = request.micro_batches;
    table_.rows.resize(request.placement.ranks());
    for (int rank = 0; rank < request.placement.ranks(); ++rank) {
      const std::vector<int> stages = request.placement.StagesOf(rank);
      bool whole = false;
      for (int s : stages) {
        const double split = request.costs.input_grad[s] + request.costs.weight_grad[s];
        whole |= request.costs.backward[s] < split;
        whole |= request.costs.weight_grad_bytes[s] > request.costs.activation_bytes[s];
      }
      choices_.push_back(AllRows(stages, request.micro_batches, whole, taken).rows());
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

// One B may be shorter than an I and a W, by a little or by as much as the whole W.
void ShortenBackwards(RandomRequests& requests, OptimiseRequest* request) {
  StageCosts& costs = request->costs;
  for (size_t s = 0; s < costs.backward.size(); ++s) {
    const int least = static_cast<int>(std::max(1.0, costs.weight_grad[s]));
    costs.backward[s] = requests.Draw(least, static_cast<int>(costs.backward[s]));
  }
}

TEST(Optimum, IsFoundAndProvedWhereOneBackwardIsShorterThanTwo) {
  struct Size {
    int ranks, micro_batches, rounds;
  };
  RandomRequests requests(17);
  for (const auto& [ranks, micro_batches, rounds] :
       {Size{1, 3, 5}, Size{2, 2, 60}, Size{3, 2, 20}, Size{2, 3, 6}}) {
    for (int round = 0; round < Trials(rounds, (rounds + 9) / 10); ++round) {
      OptimiseRequest request = requests.Next(Placement::Looped(ranks), micro_batches);
      ShortenBackwards(requests, &request);
      ExpectOptimum(request);
    }
  }
  for (int round = 0; round < Trials(20, 2); ++round) {
    for (const Placement& placement : {Placement::Looped(2, 2), Placement::V(2, 2)}) {
      OptimiseRequest request = requests.Next(placement, 1);
      ShortenBackwards(requests, &request);
      ExpectOptimum(request);
    }
  }
}

// I1 B0 W1 sums in order, too, and another stage may need it so: F1 F0 I1 I0 W0 W1 before it, and
// F1 I1 F0 B0 W1, take 29. The search looks only for timetables in which each stage takes the
// micro-batches in one order, of which 31 is the best; what it proves holds for all.
TEST(Optimum, IsNotBelowTheBoundWhereStagesTakeMicroBatchesInSeveralOrders) {
  OptimiseRequest known;
  known.placement = Placement::Looped(2);
  known.micro_batches = 2;
  known.costs = StageCosts::Uniform(2, 1, 1, 1);
  known.costs.forward = {1, 3};
  known.costs.input_grad = {8, 3};
  known.costs.weight_grad = {1, 9};
  known.costs.backward = {9, 9};
  known.costs.activation_bytes = known.costs.weight_grad_bytes = {1, 1};
  EXPECT_EQ(AllTimetables(known, Taken::kInOneOrder).Best(), 31);
  EXPECT_EQ(AllTimetables(known, Taken::kInAnyOrder).Best(), 29);
  RandomRequests requests(21);
  int different = 0, proved = 0;
  for (int round = 0; round <= Trials(80, 8); ++round) {
    OptimiseRequest request = round == 0 ? known : requests.Next(Placement::Looped(2), 2);
    if (round > 0) {
      request.limits = {};
      request.costs.weight_grad[1] = 9;
      ShortenBackwards(requests, &request);
    }
    for (size_t s = 0; s < request.costs.backward.size(); ++s) {
      double& backward = request.costs.backward[s];
      backward = std::max({backward, request.costs.input_grad[s], request.costs.weight_grad[s]});
    }
    const auto best = OptimiseTimetable(request);
    ASSERT_TRUE(best.ok()) << best.status();
    const double optimum = AllTimetables(request, Taken::kInAnyOrder).Best();
    EXPECT_LE(best->lower_bound, optimum) << round;
    const double value = ObjectiveValue(best->run, request.objective);
    EXPECT_TRUE(!best->optimal || value == optimum) << round;
    proved += best->optimal ? 1 : 0;
    different += AllTimetables(request).Best() > optimum ? 1 : 0;
  }
  EXPECT_GE(proved, Trials(80, 8) * 3 / 4);
  EXPECT_GE(different, 1);
}

// Nothing is claimed that is not so where a B is shorter than the W that it would save.
TEST(Optimum, IsNotBelowTheBoundWhereOneBackwardIsShorterThanTheWeightGradient) {
  RandomRequests requests(18);
  for (int round = 0; round < Trials(60, 6); ++round) {
    OptimiseRequest request = requests.Next(Placement::Looped(2), 2);
    for (double& backward : request.costs.backward) backward = requests.Draw(0, 4);
    const auto best = OptimiseTimetable(request);
    ASSERT_TRUE(best.ok()) << best.status();
    const double optimum = AllTimetables(request).Best();
    EXPECT_LE(best->lower_bound, optimum);
    EXPECT_GE(ObjectiveValue(best->run, request.objective), optimum);
    EXPECT_TRUE(!best->optimal || ObjectiveValue(best->run, request.objective) == optimum);
  }
}

// Nor where W needs more than F kept: memory may then lack for an I.
TEST(Optimum, IsNotBelowTheBoundWhereWeightGradientsNeedMoreThanForwardsKeep) {
  RandomRequests requests(19);
  int found = 0, rounds = 0;
  for (int round = 0; round < Trials(15, 2); ++round) {
    for (const auto& [placement, micro_batches] :
         {std::pair{Placement::Looped(2), 2}, std::pair{Placement::V(2, 2), 1},
          std::pair{Placement::Looped(2), 3}}) {
      OptimiseRequest request = requests.Next(placement, micro_batches);
      request.limits = {};
      for (double& bytes : request.costs.weight_grad_bytes) bytes = requests.Draw(4, 9);
      for (int rank = 0; rank < placement.ranks(); ++rank) {
        double least = 0;
        for (int s : placement.StagesOf(rank)) least += request.costs.activation_bytes[s];
        request.limits.bytes.push_back(least + requests.Draw(0, 12));
      }
      const auto best = OptimiseTimetable(request);
      ASSERT_TRUE(best.ok()) << best.status();
      EXPECT_TRUE(KeepsLimits(best->run, request.limits));
      const double value = ObjectiveValue(best->run, request.objective);
      const double optimum = AllTimetables(request).Best();
      EXPECT_LE(best->lower_bound, optimum);
      EXPECT_GE(value, optimum);
      EXPECT_TRUE(!best->optimal || value == optimum);
      found += value == optimum ? 1 : 0;
      ++rounds;
    }
  }
  RecordProperty("found", found);
  EXPECT_GE(found, rounds * 85 / 100) << "of " << rounds;
}

// A B never holds what W alone would: 12 on rank 0, which has room for two forwards of 6. The first
// gradient arrives after 11 seconds; then B, F and two more B take 64.
TEST(Optimum, RunsWholeBackwardsWhereWeightGradientsNeedAllMemory) {
  OptimiseRequest request;
  request.placement = Placement::Looped(2);
  request.micro_batches = 3;
  request.costs = StageCosts::Uniform(2, 1, 1, 0, 4);
  request.costs.weight_grad[0] = 20;
  request.costs.backward[0] = 21;
  request.costs.activation_bytes = {6, 1};
  request.costs.weight_grad_bytes = {12, 1};
  request.limits.bytes = {12, 3};
  const auto best = OptimiseTimetable(request);
  ASSERT_TRUE(best.ok()) << best.status();
  EXPECT_EQ(AllTimetables(request).Best(), 75);
  EXPECT_EQ(best->run.makespan, 75);
  const absl::StatusOr<optimise::Problem> problem = optimise::MakeProblem(request);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_LE(optimise::MemoryAreaBound(optimise::CheapestOf(*problem)), 75);
}

// Where not even one I has room for what its W needs, each B runs whole, and that is known.
TEST(Optimum, IsProvedWhereNoInputGradientHasRoom) {
  OptimiseRequest request;
  request.placement = Placement::Looped(2);
  request.micro_batches = 4;
  request.costs = StageCosts::Uniform(2, 1, 1, 1);
  request.costs.activation_bytes = {6, 6};
  request.costs.weight_grad_bytes = {12, 12};
  request.limits.bytes = {10, 10};
  const auto best = OptimiseTimetable(request);
  ASSERT_TRUE(best.ok()) << best.status();
  // One micro-batch at a time: F, F, B and B.
  EXPECT_EQ(best->run.makespan, 24);
  EXPECT_TRUE(best->optimal) << best->lower_bound;
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
