#include "schedules/simulate/simulate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "naive.h"
#include "random_timetable.h"
#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"
#include "schedules/simulate/memory_profile.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

constexpr int kTables = Trials(3'000, 300);

void ExpectSame(const Simulation& run, const NaiveRun& naive) {
  EXPECT_EQ(run.makespan, naive.makespan);
  EXPECT_EQ(run.peak_activations, naive.peak_activations);
  EXPECT_EQ(run.peak_bytes, naive.peak_bytes);
  for (size_t r = 0; r < naive.rows.size(); ++r) {
    for (size_t i = 0; i < naive.rows[r].size(); ++i) {
      if (naive.rows[r][i].action.op == Op::kIdle) continue;
      ASSERT_EQ(run.rows[r][i].start, naive.rows[r][i].start) << r << " " << i;
      ASSERT_EQ(run.rows[r][i].end, naive.rows[r][i].end) << r << " " << i;
    }
  }
}

TEST(Simulate, AgreesWithPushingActionsLaterUntilNothingChanges) {
  Random random(1);
  for (int i = 0; i < kTables; ++i) {
    Timetable table = RandomTimetable(random);
    if (i % 2 == 1) AddRecomputes(random, table);
    const StageCosts costs = RandomCosts(random, table.placement.stages());
    const auto run = Simulate(table, costs);
    const auto naive = NaiveSimulate(table, costs);
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_TRUE(naive.has_value());
    ExpectSame(*run, *naive);
    const Timetable lowered = *LowerTimetable(table);
    const auto lowered_run = Simulate(lowered, costs);
    ASSERT_TRUE(lowered_run.ok()) << lowered_run.status();
    ExpectSame(*lowered_run, *NaiveSimulate(lowered, costs));
    // In a lowered table messages may take their turns on a link in another order.
    if (costs.link_busy.empty()) {
      EXPECT_EQ(lowered_run->makespan, run->makespan);
    }
  }
}

TEST(Simulate, ConservesWorkAndKeepsBubblesConsistent) {
  Random random(2);
  for (int i = 0; i < kTables; ++i) {
    const Timetable table = RandomTimetable(random);
    StageCosts costs = RandomCosts(random, table.placement.stages());
    costs.overlap = -1;
    const Simulation run = *Simulate(table, costs);
    double expected = 0;
    for (const auto& row : table.rows) {
      for (const Action& a : row) {
        expected += a.op == Op::kForward      ? costs.forward[a.stage]
                    : a.op == Op::kBackward   ? costs.backward[a.stage]
                    : a.op == Op::kInputGrad  ? costs.input_grad[a.stage]
                    : a.op == Op::kWeightGrad ? costs.weight_grad[a.stage]
                                              : 0;
      }
    }
    double work = 0;
    for (double w : run.work) work += w;
    EXPECT_DOUBLE_EQ(work, expected);
    EXPECT_LE(run.span, run.makespan);
    const double ranks = table.placement.ranks();
    if (run.makespan == 0) continue;
    EXPECT_NEAR(run.bubble, 1 - work / (ranks * run.makespan), 1e-12);
    EXPECT_NEAR(run.span_bubble, 1 - work / (ranks * run.span), 1e-12);
  }
}

TEST(Simulate, TheSummaryIsThatOfTheWholeRun) {
  Random random(14);
  for (int i = 0; i < kTables / 3; ++i) {
    const Timetable table = RandomTimetable(random);
    const StageCosts costs = RandomCosts(random, table.placement.stages());
    const Simulation run = *Simulate(table, costs);
    const Simulation summary = *Simulate(table, costs, Detail::kSummary);
    EXPECT_TRUE(summary.rows.empty());
    EXPECT_TRUE(summary.critical_path.empty());
    EXPECT_EQ(summary.makespan, run.makespan);
    EXPECT_EQ(summary.span, run.span);
    EXPECT_EQ(summary.work, run.work);
    EXPECT_EQ(summary.utilisation, run.utilisation);
    EXPECT_EQ(summary.peak_activations, run.peak_activations);
    EXPECT_EQ(summary.peak_bytes, run.peak_bytes);
    for (size_t rank = 0; rank < run.work.size() && run.makespan > 0; ++rank) {
      EXPECT_DOUBLE_EQ(run.utilisation[rank] * run.makespan, run.work[rank]);
    }
  }
}

TEST(MemoryOverTime, RisesAndFallsBetweenNothingAndThePeaks) {
  Random random(15);
  for (int i = 0; i < kTables / 3; ++i) {
    Timetable table = RandomTimetable(random);
    if (i % 2 == 1) AddRecomputes(random, table);
    const StageCosts costs = RandomCosts(random, table.placement.stages());
    const Simulation run = *Simulate(table, costs);
    for (size_t rank = 0; rank < run.rows.size(); ++rank) {
      const std::vector<MemoryPoint> points = MemoryOverTime(run.rows[rank], costs);
      int most = 0;
      double most_bytes = 0;
      for (size_t k = 0; k < points.size(); ++k) {
        most = std::max(most, points[k].activations);
        most_bytes = std::max(most_bytes, points[k].bytes);
        if (k > 0) {
          EXPECT_GE(points[k].time, points[k - 1].time);
        }
      }
      EXPECT_EQ(most, run.peak_activations[rank]);
      EXPECT_EQ(most_bytes, run.peak_bytes[rank]);
      EXPECT_EQ(points.back().activations, 0);
      EXPECT_EQ(points.back().bytes, 0);
    }
  }
}

// A stage that computes its activations again holds more for its W than its F kept.
TEST(MemoryOverTime, RisesAfterAnInputGradientThatKeepsMoreThanItsForward) {
  Timetable table;
  table.placement = Placement::Looped(1);
  table.micro_batches = 2;
  table.rows.resize(1);
  for (const Op op : {Op::kForward, Op::kInputGrad, Op::kWeightGrad}) {
    for (const int micro_batch : {0, 1}) {
      table.rows[0].push_back({.op = op, .stage = 0, .micro_batch = micro_batch});
    }
  }
  StageCosts costs = StageCosts::Uniform(1, 1, 1, 1);
  costs.activation_bytes = {2};
  costs.weight_grad_bytes = {5};
  const Simulation run = *Simulate(table, costs);
  EXPECT_EQ(run.peak_bytes, (std::vector<double>{10}));
  std::vector<double> bytes;
  for (const MemoryPoint& point : MemoryOverTime(run.rows[0], costs)) bytes.push_back(point.bytes);
  EXPECT_EQ(bytes, (std::vector<double>{0, 2, 4, 7, 10, 5, 0}));
}

TEST(Simulate, RefusesTablesThatNeverFinish) {
  Timetable table = *GenerateSchedule("1f1b", {2, 2});
  std::swap(table.rows[1][0],
            table.rows[1][1]);  // B before F on rank 1, so rank 0 never gets its gradient
  const auto run = Simulate(table, StageCosts::Uniform(2, 1, 1, 1));
  ASSERT_FALSE(run.ok());
  EXPECT_NE(run.status().message().find("rank 0 waits for ever at position 2 (0B0)"),
            absl::string_view::npos)
      << run.status();
}

TEST(Simulate, RefusesBadCosts) {
  const Timetable table = *GenerateSchedule("1f1b", {2, 2});
  const StageCosts good = StageCosts::Uniform(2, 1, 1, 1);
  for (double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    StageCosts costs = good;
    costs.weight_grad[1] = bad;
    EXPECT_NE(Simulate(table, costs).status().message().find("cost W[1]"), absl::string_view::npos);
  }
  StageCosts shorter = good;
  shorter.send.clear();
  EXPECT_NE(Simulate(table, shorter).status().message().find("send has 0 values, expected 1"),
            absl::string_view::npos);
  EXPECT_TRUE(Simulate(table, good).ok());
}

TEST(Simulate, RefusesActionsOutsideTheTable) {
  Timetable table = *GenerateSchedule("1f1b", {2, 2});
  table.rows[0][0].micro_batch = 7;
  EXPECT_NE(
      Simulate(table, StageCosts::Uniform(2, 1, 1, 1)).status().message().find("0F7 is outside"),
      absl::string_view::npos);
}

TEST(Simulate, MessagesTakeTurnsOnASlowLink) {
  // Each transfer takes 3 where a forward takes 1: the link, not the ranks, sets the pace. Rank 1
  // gets micro-batch b at 1 + 3 (b + 1), and the gradients come back one transfer later.
  const Timetable table = *GenerateSchedule("gpipe", {2, 4});
  StageCosts costs = StageCosts::Uniform(2, 1, 1, 1, 3);
  costs.link_busy = {3};
  const Simulation run = *Simulate(table, costs);
  for (int b = 0; b < 4; ++b) EXPECT_EQ(run.rows[1][b].start, 1 + 3 * (b + 1));
  costs.link_busy.clear();
  const Simulation free = *Simulate(table, costs);
  for (int b = 0; b < 4; ++b) EXPECT_EQ(free.rows[1][b].start, 4 + b);
}

TEST(Simulate, AFasterRankTakesLessTime) {
  const Timetable table = *GenerateSchedule("gpipe", {2, 1});
  StageCosts costs = StageCosts::Uniform(2, 2, 2, 2);
  ApplyRankSpeeds(table.placement, {1, 4}, &costs);
  const Simulation run = *Simulate(table, costs);
  EXPECT_EQ(run.work, (std::vector<double>{6, 1.5}));
  EXPECT_EQ(run.makespan, 7.5);
}

TEST(Simulate, RefusesCostsWhoseSumIsNotFinite) {
  const Timetable table = *GenerateSchedule("gpipe", {2, 8});
  EXPECT_NE(Simulate(table, StageCosts::Uniform(2, 1e308, 1, 1)).status().message().find("finite"),
            absl::string_view::npos);
}

TEST(Simulate, CountsAnOverlappedPairOnce) {
  Timetable table;
  table.micro_batches = 2;
  table.rows = {{{.op = Op::kForward, .micro_batch = 0},
                 {.op = Op::kForward, .overlaps_next = true, .micro_batch = 1},
                 {.op = Op::kBackward, .micro_batch = 0},
                 {.op = Op::kBackward, .micro_batch = 1}}};
  StageCosts costs = StageCosts::Uniform(1, 1, 1, 1);
  EXPECT_EQ(Simulate(table, costs)->makespan, 6);  // 1 + (1 + 2) + 2
  costs.overlap = 2.5;
  const Simulation run = *Simulate(table, costs);
  EXPECT_EQ(run.makespan, 5.5);
  EXPECT_EQ(run.work[0], 5.5);
  EXPECT_EQ(run.rows[0][1].start, run.rows[0][2].start);
  EXPECT_EQ(run.rows[0][1].end, run.rows[0][2].end);
  EXPECT_EQ(run.peak_activations[0], 2);
}

}  // namespace
}  // namespace sluice
