#include "schedules/generators/recompute_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "schedules/check/validate.h"
#include "schedules/dependency.h"
#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"
#include "schedules/simulate/simulate.h"
#include "tests/schedules/naive.h"
#include "tests/schedules/random_timetable.h"

namespace sluice {
namespace {

// Every schedule of the catalogue in a few sizes.
std::vector<Timetable> Tables() {
  std::vector<Timetable> tables;
  for (const CatalogueEntry& entry : Catalogue()) {
    for (const int ranks : {1, 2, 4}) {
      for (const int micro_batches : {4, 10}) {
        const absl::StatusOr<Timetable> table = GenerateSchedule(
            entry.name,
            {.ranks = ranks, .micro_batches = micro_batches, .chunks = entry.default_chunks});
        if (table.ok()) tables.push_back(*table);
      }
    }
  }
  return tables;
}

int Count(const std::vector<Action>& row, Op op, const Action& of) {
  return static_cast<int>(std::count_if(row.begin(), row.end(), [&](const Action& action) {
    return action.op == op && action.stage == of.stage && action.micro_batch == of.micro_batch;
  }));
}

// Every backward has one RECOMPUTE, or directly follows its forward; only the other half of its
// pair and its receives may stand between them.
void ExpectRebuilt(const Timetable& table) {
  for (const std::vector<Action>& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (!MakesInputGrad(row[i].op) || Count(row, Op::kRecompute, row[i]) == 1) continue;
      size_t before = i - 1;
      if (row[before].overlaps_next) --before;
      while (row[before].op == Op::kRecvBackward) --before;
      EXPECT_EQ(row[before].op, Op::kForward);
      EXPECT_EQ(row[before].stage, row[i].stage);
      EXPECT_EQ(row[before].micro_batch, row[i].micro_batch);
    }
  }
}

TEST(RecomputeAhead, EveryBackwardOfTheCatalogueHasWhatItNeeds) {
  const std::vector<Timetable> tables = Tables();
  EXPECT_GT(tables.size(), 50u);
  for (const Timetable& table : tables) {
    const Timetable ahead = RecomputeAhead(table);
    SCOPED_TRACE(table.name);
    EXPECT_TRUE(ValidateTimetable(ahead).ok()) << ValidateTimetable(ahead);
    ExpectRebuilt(ahead);
    EXPECT_EQ(RecomputeAhead(ahead).rows, ahead.rows) << "twice adds nothing";
    const absl::StatusOr<Timetable> lowered = LowerTimetable(table);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    const Timetable lowered_ahead = RecomputeAhead(*lowered);
    EXPECT_TRUE(ValidateTimetable(lowered_ahead).ok()) << ValidateTimetable(lowered_ahead);
    ExpectRebuilt(lowered_ahead);
  }
}

// Never later than with the recomputation inside each backward.
TEST(RecomputeAhead, IsNoSlowerThanWithinTheBackward) {
  Random random(5);
  for (int i = 0; i < 300; ++i) {
    const Timetable table = RandomTimetable(random);
    StageCosts costs = RandomCosts(random, table.placement.stages());
    costs.overlap = -1;
    costs.recompute = RandomCosts(random, table.placement.stages()).forward;
    const absl::StatusOr<Simulation> ahead = Simulate(RecomputeAhead(table), costs);
    ASSERT_TRUE(ahead.ok()) << ahead.status();
    StageCosts within = costs;
    for (size_t s = 0; s < costs.recompute.size(); ++s) {
      within.backward[s] += costs.recompute[s];
      within.input_grad[s] += costs.recompute[s];
    }
    if (costs.link_busy.empty()) {  // otherwise messages may take their turns in another order
      EXPECT_LE(ahead->makespan, Simulate(table, within)->makespan) << i;
    }
  }
}

// Computed by hand: F 1, B 2, R 1. Rank 3 rebuilds nothing; all others rebuild while they wait in
// the cool-down. Within the backward it would take (8 + 3) * 4 = 44.
TEST(RecomputeAhead, OneFOneB) {
  const Timetable table = *GenerateSchedule("1f1b", {.ranks = 4, .micro_batches = 8});
  StageCosts costs = StageCosts::Uniform(4, 1, 1, 1);
  costs.activation_bytes.assign(4, 10);
  costs.checkpoint_bytes.assign(4, 1);
  const Simulation run = *Simulate(RecomputeAhead(table), costs);
  EXPECT_EQ(run.makespan, 39);
  EXPECT_EQ(run.work, std::vector<double>({32, 32, 32, 24}));
  // All activations of one micro-batch, and the inputs of the others that wait.
  EXPECT_EQ(run.peak_bytes, std::vector<double>({13, 12, 11, 10}));
}

TEST(RecomputeAhead, OfSomeStages) {
  const Timetable table = *GenerateSchedule("gpipe", {.ranks = 2, .micro_batches = 2});
  const Timetable ahead = RecomputeAhead(table, {false, true});
  EXPECT_EQ(ahead.rows[0], table.rows[0]);
  EXPECT_EQ(ahead.rows[1].size(), table.rows[1].size() + 2);
}

TEST(RecomputeAhead, LeavesWhatIsThere) {
  Random random(9);
  for (int i = 0; i < 200; ++i) {
    Timetable table = RandomTimetable(random);
    AddRecomputes(random, table);
    const Timetable ahead = RecomputeAhead(table);
    ASSERT_TRUE(ValidateTimetable(ahead).ok()) << ValidateTimetable(ahead);
    ExpectRebuilt(ahead);
  }
}

}  // namespace
}  // namespace sluice
