#include "schedules/simulate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "naive.h"
#include "random_timetable.h"
#include "schedules/catalogue.h"
#include "schedules/lower.h"

namespace sluice {
namespace {

constexpr int kTables = 3000;

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
    const Timetable table = RandomTimetable(random);
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
    EXPECT_EQ(lowered_run->makespan, run->makespan);
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

// `action` and, if it is half of a pair, the other half.
std::vector<Action> WithPartner(const Simulation& run, int rank, const Action& action) {
  const auto& row = run.rows[rank];
  std::vector<Action> halves = {action};
  for (size_t i = 0; i + 1 < row.size(); ++i) {
    if (!row[i].action.overlaps_next) continue;
    if (row[i].action == action) halves.push_back(row[i + 1].action);
    if (row[i + 1].action == action) halves.push_back(row[i].action);
  }
  return halves;
}

// The path starts at 0, ends at the makespan, and between leaves only latencies.
TEST(Simulate, CriticalPathExplainsTheMakespan) {
  Random random(3);
  for (int i = 0; i < kTables; ++i) {
    Timetable table = RandomTimetable(random);
    if (i % 2 == 1) table = *LowerTimetable(table);
    const StageCosts costs = RandomCosts(random, table.placement.stages());
    const Simulation run = *Simulate(table, costs);
    if (run.makespan == 0) continue;
    const auto& path = run.critical_path;
    ASSERT_FALSE(path.empty());
    EXPECT_EQ(path.front().start, 0);
    EXPECT_EQ(path.back().end, run.makespan);
    for (size_t k = 1; k < path.size(); ++k) {
      const int before = path[k - 1].action.stage;
      const int rank = table.placement.rank(path[k].action.stage);
      bool explained = false;
      for (const Action& half : WithPartner(run, rank, path[k].action)) {
        const bool same_rank = table.placement.rank(before) == rank;
        if (!same_rank && std::abs(before - half.stage) != 1) continue;
        const double latency = same_rank ? 0 : costs.send[std::min<int>(before, half.stage)];
        explained |= path[k].start == path[k - 1].end + latency;
      }
      EXPECT_TRUE(explained) << ToString(path[k - 1].action) << " then "
                             << ToString(path[k].action);
    }
  }
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
