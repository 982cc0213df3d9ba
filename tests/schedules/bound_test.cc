#include "schedules/simulate/bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "random_timetable.h"
#include "schedules/generators/catalogue.h"
#include "schedules/generators/recompute_ahead.h"
#include "schedules/simulate/simulate.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

TEST(LowerBound, IsNeverAboveARandomTable) {
  Random random(4);
  for (int i = 0; i < Trials(20'000, 2'000); ++i) {
    const Timetable table = RandomTimetable(random);
    const StageCosts costs = RandomCosts(random, table.placement.stages());
    const double bound = MakespanLowerBound(table.placement, table.micro_batches, costs);
    ASSERT_LE(bound, Simulate(table, costs)->makespan + 1e-9)
        << table.placement.stages() << " stages";
  }
}

// Every timetable that rebuilds the same micro-batches takes at least the bound.
TEST(LowerBound, CountsWhatIsRebuilt) {
  Random random(6);
  for (int i = 0; i < Trials(20'000, 2'000); ++i) {
    Timetable table = RandomTimetable(random);
    AddRecomputes(random, table);
    const StageCosts costs = RandomCosts(random, table.placement.stages());
    std::vector<int> recomputes(static_cast<size_t>(table.placement.stages()), 0);
    for (const std::vector<Action>& row : table.rows) {
      for (const Action& action : row) recomputes[action.stage] += action.op == Op::kRecompute;
    }
    const double with = MakespanLowerBound(table.placement, table.micro_batches, costs, recomputes);
    const Simulation run = *Simulate(table, costs);
    ASSERT_LE(with, run.makespan + 1e-9) << i;
    EXPECT_EQ(run.lower_bound, std::min(with, run.makespan));
    EXPECT_GE(with, MakespanLowerBound(table.placement, table.micro_batches, costs));
  }
  // Rank 2 of 4: two forwards before it, then 8 times F 1, R 1, I 1 and W 1.
  const Timetable table =
      RecomputeAhead(*GenerateSchedule("1f1b", {.ranks = 4, .micro_batches = 8}));
  EXPECT_EQ(Simulate(table, StageCosts::Uniform(4, 1, 1, 1))->lower_bound, 34);
}

// A pair needs an F and a backward, so that free pairs do not make a step free.
TEST(LowerBound, WhatCannotBeInAPairTakesItsTime) {
  const Timetable table =
      *GenerateSchedule("dualpipev", {.ranks = 2, .micro_batches = 4, .chunks = 2});
  StageCosts costs = StageCosts::Uniform(4, 1, 1, 1);
  costs.overlap = 0;
  // F on 4 stages, the gradient on 3 and the whole backward on 1.
  EXPECT_EQ(Simulate(table, costs)->lower_bound, 9);
  // Where only pairs take time, any number of which may be none.
  costs = StageCosts::Uniform(4, 0, 0, 0);
  costs.overlap = 1;
  const Simulation run = *Simulate(table, costs);
  EXPECT_EQ(run.lower_bound, 0);
  EXPECT_GT(run.makespan, 0);
  EXPECT_EQ(run.gap, std::numeric_limits<double>::infinity());
}

// The best of all timetables, found by trying every order in which actions can start, with whole
// and with split backwards.
class BestOfAll {
 public:
  BestOfAll(const Placement& placement, int micro_batches, const StageCosts& costs)
      : placement_(placement),
        m_(micro_batches),
        costs_(costs),
        clock_(placement.ranks(), 0),
        forward_(static_cast<size_t>(placement.stages()) * micro_batches, -1),
        gradient_(forward_),
        weight_(forward_.size(), false) {}

  double Find() {
    Try(0);
    return best_;
  }

 private:
  size_t Cell(int s, int b) const { return static_cast<size_t>(s) * m_ + b; }
  double Arrival(const std::vector<double>& ended, int from, int to, int b) const {
    const double end = ended[Cell(from, b)];
    if (end < 0) return -1;
    return placement_.rank(from) == placement_.rank(to) ? end
                                                        : end + costs_.send[std::min(from, to)];
  }

  void Try(double makespan) {
    if (makespan >= best_) return;
    bool done = true;
    for (int s = 0; s < placement_.stages(); ++s) {
      for (int b = 0; b < m_; ++b) {
        done = done && weight_[Cell(s, b)];
        TryForward(s, b, makespan);
        TryGradient(s, b, makespan);
        TryWeight(s, b, makespan);
      }
    }
    if (done) best_ = makespan;
  }

  template <typename Undo>
  void Run(int stage, double ready, double duration, double makespan, double* ended,
           const Undo& undo) {
    double& clock = clock_[placement_.rank(stage)];
    const double before = clock;
    clock = std::max(clock, ready) + duration;
    if (ended != nullptr) *ended = clock;
    Try(std::max(makespan, clock));
    clock = before;
    if (ended != nullptr) *ended = -1;
    undo();
  }

  // All micro-batches are equal, so they can be taken in order.
  void TryForward(int s, int b, double makespan) {
    if (forward_[Cell(s, b)] >= 0 || (b > 0 && forward_[Cell(s, b - 1)] < 0)) return;
    const double ready = s == 0 ? 0 : Arrival(forward_, s - 1, s, b);
    if (ready >= 0) Run(s, ready, costs_.forward[s], makespan, &forward_[Cell(s, b)], [] {});
  }

  void TryGradient(int s, int b, double makespan) {
    const size_t cell = Cell(s, b);
    if (forward_[cell] < 0 || gradient_[cell] >= 0) return;
    const double ready =
        s + 1 == placement_.stages() ? forward_[cell] : Arrival(gradient_, s + 1, s, b);
    if (ready < 0) return;
    Run(s, ready, costs_.input_grad[s], makespan, &gradient_[cell], [] {});
    weight_[cell] = true;
    Run(s, ready, costs_.backward[s], makespan, &gradient_[cell], [&] { weight_[cell] = false; });
  }

  void TryWeight(int s, int b, double makespan) {
    const size_t cell = Cell(s, b);
    if (gradient_[cell] < 0 || weight_[cell]) return;
    weight_[cell] = true;
    Run(s, gradient_[cell], costs_.weight_grad[s], makespan, nullptr,
        [&] { weight_[cell] = false; });
  }

  const Placement& placement_;
  const int m_;
  const StageCosts& costs_;
  std::vector<double> clock_;
  std::vector<double> forward_, gradient_;
  std::vector<bool> weight_;
  double best_ = 1e9;
};

TEST(LowerBound, IsNeverAboveTheBestOfAllTables) {
  Random random(5);
  const std::vector<std::vector<int>> placements = {{0},       {0, 1},    {0, 0},
                                                    {0, 1, 0}, {0, 1, 1}, {0, 1, 2}};
  int met = 0;
  int tried = 0;
  for (const auto& ranks : placements) {
    const Placement placement = *Placement::FromRanks(ranks);
    for (int m = 1; m <= (ranks.size() < 3 ? 2 : 1); ++m) {
      for (int i = 0; i < 40; ++i) {
        StageCosts costs = RandomCosts(random, placement.stages());
        costs.overlap = -1;
        const double best = BestOfAll(placement, m, costs).Find();
        const double bound = MakespanLowerBound(placement, m, costs);
        ASSERT_LE(bound, best + 1e-9);
        met += bound >= best - 1e-9;
        ++tried;
      }
    }
  }
  // A bound that no timetable reaches would be of little use.
  EXPECT_GT(met, tried / 2);
}

// The zero-bubble paper's ZB-H1 is optimal for equal F, I and W without latency: p - 1 idle slots
// remain on a rank.
TEST(LowerBound, IsMetByZbH1) {
  for (int p = 1; p <= 6; ++p) {
    for (int m = p; m <= 12; ++m) {
      const StageCosts costs = StageCosts::Uniform(p, 1, 1, 1);
      EXPECT_EQ(Simulate(*GenerateSchedule("zb-h1", {p, m}), costs)->gap, 0) << p << " " << m;
    }
  }
}

}  // namespace
}  // namespace sluice
